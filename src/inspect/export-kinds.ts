export const exportKinds = ["rollouts", "attempts", "spans", "triplets", "rows"] as const;
export type ExportKind = (typeof exportKinds)[number];
