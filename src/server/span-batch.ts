import type * as v from "valibot";
import { spanBatchSchema, spanSchema } from "../protocol/span-schema.ts";
import type { SpanBatchResult, StoreApi } from "../protocol/store-api.ts";
import type { Span } from "../protocol/types.ts";
import { check, detailsOf, parse } from "./validation.ts";

/** An extension of ours: many spans in one grouped write; a bad one is named and stops no other. */
export async function addSpanBatch(store: StoreApi, received: unknown): Promise<SpanBatchResult> {
  const valid: { span: Span; index: number }[] = [];
  const rejected: SpanBatchResult["rejected"] = [];
  check(spanBatchSchema, received, "body").spans.forEach((candidate, index) => {
    const result = parse(spanSchema, candidate);
    if (result.success) valid.push({ span: result.output, index });
    else rejected.push({ index, detail: describe(result.issues) });
  });
  const outcome = await store.addSpans(valid.map(({ span }) => span));
  const refused = outcome.rejected.map(({ index, detail }) => ({ index: valid[index]!.index, detail }));
  return { ...outcome, rejected: [...rejected, ...refused].sort((a, b) => a.index - b.index) };
}

function describe(issues: readonly v.BaseIssue<unknown>[]): string {
  return detailsOf(issues, [])
    .map(({ loc, msg }) => `${loc.join(".") || "span"}: ${msg}`)
    .join("; ");
}
