export const exportKinds = [
  "rollouts",
  "attempts",
  "spans",
  "triplets",
  "rows",
  "messages",
  "resources",
  "workers",
  "all",
] as const;
export type ExportKind = (typeof exportKinds)[number];

export const exportFilters = ["rollout", "status", "mode", "since", "until", "attempt", "name"] as const;
export type ExportFilterName = (typeof exportFilters)[number];

const ofRollouts: ExportFilterName[] = ["rollout", "status", "mode", "since", "until"];

/** Which filters choose among the things of a kind; any other would be without effect. */
export const filtersOf: Record<ExportKind, ExportFilterName[]> = {
  rollouts: ofRollouts,
  attempts: [...ofRollouts, "attempt"],
  spans: [...ofRollouts, "attempt", "name"],
  triplets: [...ofRollouts, "attempt"],
  rows: ofRollouts,
  messages: [...ofRollouts, "attempt"],
  resources: [],
  workers: [],
  all: ofRollouts,
};
