import type { JsonMember, TextEdit } from "../protocol/json-text.ts";
import { applyEdits, elementsOf, membersOf, removalEdits } from "../protocol/json-text.ts";
import type { JsonObject } from "../protocol/types.ts";
import { isObject } from "./model-request.ts";

/** What of an answer is there only because its recorder asked for it. */
export interface AnswerMask {
  /** Shown in place of the server's model id; without it, that is left as it is. */
  modelName?: string;
  hideTokenIds: boolean;
  /** Streams only: a plain answer always has its usage. */
  hideUsage: boolean;
}

const tokenIdKeys = new Set(["prompt_token_ids", "token_ids"]);

/** The answer as the agent would have got it. `body` is the parsed `json`, an object. */
export function maskAnswer(json: string, body: JsonObject, mask: AnswerMask): string {
  const members = membersOf(json);
  const edits = removalEdits(members, ({ key }) => isHidden(key, mask));
  for (const member of members) {
    if (member.key === "model" && typeof body.model === "string" && mask.modelName !== undefined) {
      edits.push({ start: member.valueStart, end: member.end, replacement: JSON.stringify(mask.modelName) });
    }
    if (member.key === "choices" && mask.hideTokenIds) edits.push(...choiceEdits(json, member));
  }
  return applyEdits(json, edits);
}

function isHidden(key: string, mask: AnswerMask): boolean {
  return (mask.hideTokenIds && tokenIdKeys.has(key)) || (mask.hideUsage && key === "usage");
}

function choiceEdits(json: string, choices: JsonMember): TextEdit[] {
  if (json[choices.valueStart] !== "[") return [];
  return elementsOf(json, choices.valueStart)
    .filter(({ start }) => json[start] === "{")
    .flatMap(({ start }) => removalEdits(membersOf(json, start), ({ key }) => tokenIdKeys.has(key)));
}

/** Null when the whole chunk would not be there without the recorder's additions. */
export function maskChunk(json: string, chunk: JsonObject, mask: AnswerMask): string | null {
  const choices = Array.isArray(chunk.choices) ? chunk.choices : null;
  if (mask.hideUsage && choices?.length === 0 && isObject(chunk.usage)) return null;
  if (mask.hideTokenIds && choices !== null && choices.length > 0 && choices.every(holdsOnlyIds)) return null;
  return maskAnswer(json, chunk, mask);
}

/**
 * vLLM sends tokens that its tool parser keeps back as an empty delta when ids were asked for, and with their
 * log-probabilities when those were: only the former is an addition of the recorder.
 */
function holdsOnlyIds(choice: unknown): boolean {
  if (!isObject(choice) || !Array.isArray(choice.token_ids)) return false;
  if (isPresent(choice.finish_reason) || isPresent(choice.logprobs)) return false;
  return isObject(choice.delta) && Object.keys(choice.delta).length === 0;
}

function isPresent(value: unknown): boolean {
  return value !== null && value !== undefined;
}
