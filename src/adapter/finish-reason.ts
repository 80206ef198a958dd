import type { Span } from "../protocol/types.ts";
import { arrayOf, textOf } from "./opaque.ts";

/** Of the first choice, as any of the spans of a call names it. */
export function finishReasonOf(spans: readonly Span[]): string | null {
  for (const { attributes } of spans) {
    const first = arrayOf(attributes["gen_ai.response.finish_reasons"])[0];
    const reason = textOf(attributes["gen_ai.completion.0.finish_reason"]) ?? textOf(first);
    if (reason !== null) return reason;
  }
  return null;
}
