import type { JsonMember, TextEdit } from "../protocol/json-text.ts";
import { applyEdits, elementsOf, membersOf, removalEdits, withMembers } from "../protocol/json-text.ts";
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
  const hidesUsage = mask.hideUsage && body.usage !== undefined;
  const renamed = isRenamed(body, mask.modelName);
  if (!hidesUsage && !mask.hideTokenIds && !renamed) return json;
  if (!hidesUsage && !renamed) {
    const shown = withoutIds(json, body);
    if (shown !== null) return shown;
  }
  const members = membersOf(json);
  const edits = hidesUsage ? removalEdits(members, ({ key }) => key === "usage") : [];
  if (renamed) edits.push(...modelEdits(members, mask.modelName as string));
  if (mask.hideTokenIds) {
    edits.push(...idEdits(json, members));
    for (const member of members) if (member.key === "choices") edits.push(...choiceEdits(json, member));
  }
  return applyEdits(json, edits);
}

/** The answer with the name that the agent uses for its model. */
export function withModelName(json: string, body: JsonObject, modelName: string): string {
  return isRenamed(body, modelName) ? applyEdits(json, modelEdits(membersOf(json), modelName)) : json;
}

function isRenamed({ model }: JsonObject, modelName: string | undefined): boolean {
  return typeof model === "string" && modelName !== undefined && model !== modelName;
}

function modelEdits(members: JsonMember[], modelName: string): TextEdit[] {
  return members
    .filter(({ key }) => key === "model")
    .map(({ valueStart, end }) => ({ start: valueStart, end, replacement: JSON.stringify(modelName) }));
}

/**
 * For what vLLM writes, once per token, without a look at the members around the ids. A quote inside a JSON string is
 * escaped, so a key in quotes is one; null unless each that holds something holds a list that is to go.
 */
function withoutIds(json: string, body: JsonObject): string | null {
  let prompts = isIdList(body.prompt_token_ids) ? 1 : 0;
  let responses = isIdList(body.token_ids) ? 1 : 0;
  for (const choice of Array.isArray(body.choices) ? body.choices : []) {
    if (!isObject(choice)) return null;
    if (isIdList(choice.prompt_token_ids)) prompts += 1;
    if (isIdList(choice.token_ids)) responses += 1;
  }
  const shown = nulled(json, '"prompt_token_ids"', prompts);
  return shown === null ? null : nulled(shown, '"token_ids"', responses);
}

function isIdList(value: unknown): boolean {
  return Array.isArray(value) && value.every((id) => typeof id === "number");
}

/** Null instead of these lists of numbers; null when there are not `count` of them, written like this. */
function nulled(json: string, key: string, count: number): string | null {
  let shown = "";
  let position = 0;
  let found = 0;
  for (let at = json.indexOf(key); at !== -1; at = json.indexOf(key, at + key.length)) {
    const value = at + key.length + 1;
    if (json[value - 1] !== ":") return null;
    if (json.startsWith("null", value)) continue;
    if (json[value] !== "[") return null;
    shown += `${json.slice(position, value)}null`;
    position = json.indexOf("]", value) + 1;
    found += 1;
  }
  if (found !== count) return null;
  return found === 0 ? json : shown + json.slice(position);
}

/** vLLM writes null where it was not asked for ids. */
function idEdits(json: string, members: JsonMember[]): TextEdit[] {
  return members
    .filter(({ key, valueStart }) => tokenIdKeys.has(key) && json[valueStart] === "[")
    .map(({ valueStart, end }) => ({ start: valueStart, end, replacement: "null" }));
}

function choiceEdits(json: string, choices: JsonMember): TextEdit[] {
  if (json[choices.valueStart] !== "[") return [];
  return elementsOf(json, choices.valueStart)
    .filter(({ start }) => json[start] === "{")
    .flatMap(({ start }) => idEdits(json, membersOf(json, start)));
}

/** Null when the whole chunk would not be there without the recorder's additions. */
export function maskChunk(json: string, chunk: JsonObject, mask: AnswerMask): string | null {
  const choices = Array.isArray(chunk.choices) ? chunk.choices : null;
  if (mask.hideUsage && isUsageChunk(chunk)) return null;
  if (mask.hideTokenIds && choices !== null && choices.length > 0 && choices.every(holdsOnlyIds)) return null;
  return maskAnswer(json, chunk, mask);
}

/** The last chunk of a stream whose usage was asked for. */
export function isUsageChunk({ choices, usage }: JsonObject): boolean {
  return Array.isArray(choices) && choices.length === 0 && isObject(usage);
}

/** A choice ends here. */
export function isFinalChunk({ choices }: JsonObject): boolean {
  return (
    Array.isArray(choices) && choices.some((choice) => isObject(choice) && isPresent(choice.finish_reason))
  );
}

/** vLLM names its configuration in the last chunk: the one with the usage, or, without that, the one that ends. */
export function withFingerprint(json: string, fingerprint: string): string {
  return withMembers(json, { system_fingerprint: JSON.stringify(fingerprint) });
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
