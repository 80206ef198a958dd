import { inexactReason } from "../../chat/answer.ts";
import type { CallRecord } from "./call-record.ts";
import { asksForTokenIds } from "../servers/upstreams.ts";

/** Null when the ids can be trusted; else the reason, which for a server that has none to give is just that. */
export function inexactCallReason(record: Omit<CallRecord, "identity" | "answerText">): string | null {
  const reason = inexactReason(record);
  const hasNone = reason === "no_prompt_token_ids" || reason === "no_response_token_ids";
  return hasNone && !asksForTokenIds(record.upstream) ? "server_gives_no_token_ids" : reason;
}
