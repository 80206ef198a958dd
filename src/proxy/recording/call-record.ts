import type { CallEnd } from "../../chat/answer.ts";
import type { ModelRequest } from "../../chat/model-request.ts";
import type { AttemptIds } from "./attempt-key.ts";
import type { JsonObject } from "../../protocol/types.ts";
import type { Upstream } from "../servers/upstreams.ts";

/** Whose call it is, and its place among the spans of the rollout. */
export interface CallIdentity extends AttemptIds {
  sequenceId: number;
  /** The attempt had already ended when the call came. */
  stale: boolean;
  /** How often the client had tried this call before. */
  retry: number;
}

/** Everything there is to say about one call, once it is over. */
export interface CallRecord extends CallEnd {
  identity: CallIdentity;
  upstream: Upstream;
  request: ModelRequest;
  /** The request in the shape of a chat completion. */
  chatBody: JsonObject;
  /** The JSON sent to the model server. */
  requestText: string;
  /** The JSON of the answer; put together from the chunks of a stream. Null when there is none. */
  answerText: string | null;
  /** Unix seconds. */
  startTime: number;
  endTime: number;
}
