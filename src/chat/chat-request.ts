import { withMembers } from "../protocol/json-text.ts";
import type { JsonObject } from "../protocol/types.ts";

/** What the agent sent, and what the answer must look like to it. */
export interface ChatRequest {
  text: string;
  body: JsonObject;
  /** The name the agent used. */
  modelName: string;
  streamed: boolean;
  wantsTokenIds: boolean;
  wantsUsage: boolean;
}

export type ReadChatRequest =
  { ok: true; request: ChatRequest } | { ok: false; message: string; param: string | null };

export function readChatRequest(text: string): ReadChatRequest {
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

/** The same request for the model server; with `recorded`, it also asks for what the record needs. */
export function upstreamRequestText(request: ChatRequest, model: string, recorded: boolean): string {
  return withMembers(request.text, {
    model: JSON.stringify(model),
    ...(recorded ? recordedMembers(request) : {}),
  });
}

/** The same request, asking for what a record needs. */
export function recordedRequestText(request: ChatRequest): string {
  return withMembers(request.text, recordedMembers(request));
}

function recordedMembers({ body, streamed }: ChatRequest): { [key: string]: string } {
  if (!streamed) return { return_token_ids: "true" };
  const options = isObject(body.stream_options) ? body.stream_options : {};
  return {
    return_token_ids: "true",
    stream_options: JSON.stringify({ ...options, include_usage: true }),
  };
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
