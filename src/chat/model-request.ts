import { withMembers, withNewMembers } from "../protocol/json-text.ts";
import type { MemberTexts } from "../protocol/json-text.ts";
import type { JsonObject } from "../protocol/types.ts";

/** What the agent sent, and what the answer must look like to it. */
export interface ModelRequest {
  text: string;
  body: JsonObject;
  /** The name the agent used. */
  modelName: string;
  streamed: boolean;
  wantsTokenIds: boolean;
  wantsUsage: boolean;
}

export type ReadModelRequest =
  { ok: true; request: ModelRequest } | { ok: false; message: string; param: string | null };

export function readModelRequest(text: string): ReadModelRequest {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    return { ok: false, message: `the body is not JSON: ${String(error)}`, param: null };
  }
  if (!isObject(body)) return { ok: false, message: "the body is not a JSON object", param: null };
  if (typeof body.model !== "string" || body.model === "") {
    const given = JSON.stringify(body.model) ?? "missing";
    return { ok: false, message: `model is ${given}: give the name of a model`, param: "model" };
  }
  const streamed = body.stream === true;
  const wantsUsage = isObject(body.stream_options) && body.stream_options.include_usage === true;
  const wantsTokenIds = body.return_token_ids === true;
  return { ok: true, request: { text, body, modelName: body.model, streamed, wantsTokenIds, wantsUsage } };
}

export interface UpstreamRequest {
  /** The id the server itself uses. */
  model: string;
  /** Whether to ask for what a record needs. */
  recorded: boolean;
  /** Whether the server knows `return_token_ids`. */
  tokenIds: boolean;
  /** Members where the agent names none. */
  defaults?: JsonObject;
}

/** The same request for the model server. */
export function upstreamRequestText(request: ModelRequest, upstream: UpstreamRequest): string {
  const { model, recorded, tokenIds, defaults } = upstream;
  const members = defaults === undefined ? {} : defaultMembers(request.body, defaults);
  if (request.modelName !== model) members.model = JSON.stringify(model);
  return requestWith(request, recorded ? withRecordedMembers(members, request, tokenIds) : members);
}

/** The defaults that are in force, as JSON texts: an agent that writes null names no value. */
export function defaultMembers(body: JsonObject, defaults: JsonObject): MemberTexts {
  const inForce = Object.entries(defaults).filter(
    ([name]) => body[name] === undefined || body[name] === null,
  );
  return Object.fromEntries(inForce.map(([name, value]) => [name, JSON.stringify(value)]));
}

/** The same request, asking for what a record needs. */
export function recordedRequestText(request: ModelRequest): string {
  return requestWith(request, withRecordedMembers({}, request, true));
}

/** Members that are not there yet are added without a look at the others, which are a long conversation. */
function requestWith({ text, body }: ModelRequest, members: MemberTexts): string {
  for (const name in members) if (Object.hasOwn(body, name)) return withMembers(text, members);
  return withNewMembers(text, members);
}

const onlyUsage = JSON.stringify({ include_usage: true });

function withRecordedMembers(
  members: MemberTexts,
  { body, streamed }: ModelRequest,
  tokenIds: boolean,
): MemberTexts {
  if (tokenIds) members.return_token_ids = "true";
  if (!streamed) return members;
  const options = body.stream_options;
  members.stream_options = isObject(options)
    ? JSON.stringify({ ...options, include_usage: true })
    : onlyUsage;
  return members;
}

/** The objects of a list; none of anything else. */
export function objectsOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
