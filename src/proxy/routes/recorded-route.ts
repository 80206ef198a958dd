import type { AnswerReader, FingerprintMemory } from "../../chat/answer-reader.ts";
import type { ModelRequest } from "../../chat/model-request.ts";
import type { JsonObject } from "../../protocol/types.ts";
import type { Upstream } from "../servers/upstreams.ts";

/** How the calls of one route are asked of a model server, read, and shown to the agent. */
export interface RecordedRoute {
  /** Below the base URL of the model server. */
  upstreamPath: string;
  /** The JSON for the model server; with what a record needs when the call is recorded. */
  requestText(request: ModelRequest, upstream: Upstream, recorded: boolean): string;
  /** A reader for one answer. */
  reader(request: ModelRequest, options: ReaderOptions): AnswerReader;
  /** The request in the shape of a chat completion, for the normalised span. */
  chatBody(body: JsonObject): JsonObject;
  /** The body of an error as the agent's API writes it; unchanged when absent. */
  errorText?(text: string): string;
}

export interface ReaderOptions {
  recorded: boolean;
  /** Of the model server that answers. */
  fingerprint: FingerprintMemory;
}

/** By what the agent asks and who answers. */
export type ChooseRoute = (request: ModelRequest, upstream: Upstream, recorded: boolean) => RecordedRoute;
