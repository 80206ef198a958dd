import * as v from "valibot";

const bytes = v.pipe(v.number(), v.minValue(0));

/** What trainer/fetch_model.py prints. */
const lineSchema = v.variant("kind", [
  v.object({
    kind: v.literal("listing"),
    files: v.record(v.string(), bytes),
    parameters: v.optional(bytes),
  }),
  v.object({ kind: v.literal("progress"), bytes, total: bytes }),
  v.object({ kind: v.literal("result"), commit: v.string(), files: bytes }),
  v.object({
    kind: v.literal("error"),
    reason: v.string(),
    message: v.string(),
    page: v.optional(v.string(), ""),
    candidates: v.optional(v.array(v.string()), []),
  }),
]);

export type FetchLine = v.InferOutput<typeof lineSchema>;
export type FetchError = Extract<FetchLine, { kind: "error" }>;

/** Undefined for anything else that a Python program prints. */
export function parseFetchLine(line: string): FetchLine | undefined {
  try {
    return v.parse(lineSchema, JSON.parse(line));
  } catch {
    return undefined;
  }
}
