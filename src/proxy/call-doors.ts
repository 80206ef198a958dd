import type { Context } from "hono";
import type { ModelRequest } from "../chat/model-request.ts";
import { readModelRequest } from "../chat/model-request.ts";
import { readLimited } from "../chat/limited-body.ts";
import { directFetch } from "../client/loopback-fetch.ts";
import { messageOf } from "../errors.ts";
import { silentLogger } from "../log.ts";
import type { CallIdentity } from "./call-record.ts";
import type { CallSurroundings, ModelCallOptions } from "./model-call.ts";
import { forwardModelCall } from "./model-call.ts";
import type { ProxyStatistics, Refusal } from "./counts.ts";
import { createCounts } from "./counts.ts";
import { errorAnswer } from "./error-answer.ts";
import { Fingerprints } from "./fingerprints.ts";
import type { KnownAttempts } from "./known-attempts.ts";
import { createKnownAttempts } from "./known-attempts.ts";
import { passThrough } from "./pass-through.ts";
import type { ProxyOptions, SpanSink } from "./proxy.ts";
import type { ChooseRoute } from "./recorded-route.ts";
import { Recorder } from "./recorder.ts";
import type { Upstream, UpstreamTable } from "./upstreams.ts";
import { createUpstreamTable } from "./upstreams.ts";

export const defaultMaxBodyBytes = 64 * 1024 * 1024;

/** A refusal is answered at once and counted; nothing of it reaches the model server. */
class Refused extends Error {
  readonly reason: Refusal;
  readonly answer: Response;

  constructor(reason: Refusal, answer: Response) {
    super(reason);
    this.reason = reason;
    this.answer = answer;
  }
}

interface AttemptIds {
  rolloutId: string;
  attemptId: string;
}

interface ChosenCall extends Pick<ModelCallOptions, "request" | "upstream" | "recording"> {
  choose: ChooseRoute;
}

/** What happens behind each route. */
export class CallDoors {
  readonly upstreams: UpstreamTable;
  readonly recorder: Recorder;
  readonly surroundings: CallSurroundings;
  readonly #attempts: KnownAttempts;
  readonly #store: SpanSink;
  readonly #maxBodyBytes: number;
  readonly #attemptFlushTimeoutMs: number;
  #closed = false;

  constructor(options: ProxyOptions) {
    const { store, log = silentLogger, now = Date.now, maxWaitingCalls } = options;
    this.upstreams = createUpstreamTable(options.upstreams ?? [], options.random ?? Math.random);
    this.recorder = new Recorder({
      store,
      log,
      ...(maxWaitingCalls === undefined ? {} : { maxWaitingCalls }),
    });
    this.surroundings = {
      fetch: options.fetch ?? directFetch,
      counts: createCounts(),
      fingerprints: new Fingerprints(),
      log,
      now,
      firstByteTimeoutMs: options.firstByteTimeoutMs ?? 600_000,
      maxAnswerBytes: options.maxAnswerBytes ?? 256 * 1024 * 1024,
    };
    this.#attempts = createKnownAttempts({ store, now });
    this.#store = store;
    this.#maxBodyBytes = options.maxBodyBytes ?? defaultMaxBodyBytes;
    this.#attemptFlushTimeoutMs = options.attemptFlushTimeoutMs ?? 30_000;
  }

  statistics(): ProxyStatistics {
    return { ...structuredClone(this.surroundings.counts), ...this.recorder.statistics() };
  }

  close(): void {
    this.#closed = true;
    this.recorder.close();
  }

  models(context: Context): Response {
    const data = this.upstreams.names().map((id) => ({ id, object: "model", created: 0, owned_by: "agl" }));
    return context.json({ object: "list", data });
  }

  /** A runner calls this before it ends the attempt, so that what it ends is complete. */
  async flushAttempt(context: Context): Promise<Response> {
    const rolloutId = context.req.param("rolloutId") ?? "";
    const attemptId = context.req.param("attemptId") ?? "";
    const stored = await this.recorder.flush(this.#attemptFlushTimeoutMs, rolloutId, attemptId);
    this.#attempts.forget(rolloutId, attemptId);
    if (stored) return context.body(null, 204);
    return errorAnswer(
      504,
      "not_stored",
      "calls of this attempt are still open, or the store has not taken them",
    );
  }

  async record(context: Context, choose: ChooseRoute): Promise<Response> {
    return await this.#refusing(async () => {
      const ids = attemptIds(context);
      if (ids === null) {
        if (this.surroundings.counts.unattributed++ === 0) {
          this.surroundings.log.warning("calls without a rollout and attempt are forwarded and not recorded");
        }
        const request = await this.#readRequest(context);
        return await this.#forward(context, {
          choose,
          request,
          upstream: this.#pickUpstream(request),
          recording: null,
        });
      }
      this.surroundings.counts.calls += 1;
      return await this.#recorded(context, choose, ids);
    });
  }

  async #recorded(context: Context, choose: ChooseRoute, ids: AttemptIds): Promise<Response> {
    // Begun before anything is awaited, so that a flush which comes now waits for this call.
    const open = this.recorder.begin(ids.rolloutId, ids.attemptId);
    try {
      const request = await this.#readRequest(context);
      const upstream = this.#pickUpstream(request);
      const identity = await this.#identify(ids);
      return await this.#forward(context, { choose, request, upstream, recording: { identity, open } });
    } catch (error) {
      open.discard();
      throw error;
    }
  }

  #forward(context: Context, { choose, ...call }: ChosenCall): Promise<Response> {
    const { signal: client, headers: clientHeaders } = context.req.raw;
    const route = choose(call.request, call.upstream, call.recording !== null);
    return forwardModelCall({ ...call, route, surroundings: this.surroundings, clientHeaders, client });
  }

  async pass(context: Context, route: string): Promise<Response> {
    return await this.#refusing(async () => {
      const request = await this.#readRequest(context);
      return await passThrough({
        surroundings: this.surroundings,
        upstream: this.#pickUpstream(request),
        route,
        request,
        clientHeaders: context.req.raw.headers,
        client: context.req.raw.signal,
      });
    });
  }

  async #refusing(answer: () => Promise<Response>): Promise<Response> {
    try {
      return await answer();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.surroundings.counts.refused[error.reason] += 1;
      return error.answer;
    }
  }

  async #readRequest(context: Context): Promise<ModelRequest> {
    if (this.#closed) throw unavailable("closed", "the proxy is closing");
    const { headers, body } = context.req.raw;
    const encoding = headers.get("content-encoding");
    if (encoding !== null && encoding !== "identity") {
      const message = `content-encoding is ${encoding}: send the body uncompressed`;
      throw new Refused("bad_request", errorAnswer(415, "unsupported_encoding", message));
    }
    const bytes = await readLimited(body, this.#maxBodyBytes).catch(() => {
      throw new Refused("bad_request", errorAnswer(400, "invalid_request", "the body ended too early"));
    });
    if (bytes === null) {
      const message = `the body is larger than ${this.#maxBodyBytes} bytes`;
      throw new Refused("bad_request", errorAnswer(413, "body_too_large", message));
    }
    const read = readModelRequest(new TextDecoder().decode(bytes));
    if (read.ok) return read.request;
    throw new Refused(
      "bad_request",
      errorAnswer(400, "invalid_request", read.message, { param: read.param }),
    );
  }

  #pickUpstream({ modelName }: ModelRequest): Upstream {
    const upstream = this.upstreams.pick(modelName);
    if (upstream !== undefined) return upstream;
    const names = this.upstreams.names();
    if (names.length === 0) throw unavailable("no_upstream", "no model is being served now; try again");
    const message = `model is ${JSON.stringify(modelName)}: this proxy serves ${names.join(", ")}`;
    throw new Refused("unknown_model", errorAnswer(400, "model_not_found", message, { param: "model" }));
  }

  async #identify({ rolloutId, attemptId }: AttemptIds): Promise<CallIdentity> {
    if (this.recorder.isFull()) {
      throw unavailable("recording_backlog", "the store has not taken earlier calls yet; try again");
    }
    const { state, sequenceId } = await this.#askStore(rolloutId, attemptId);
    if (state === "unknown") {
      const message = `there is no attempt ${attemptId} of a rollout ${rolloutId}`;
      throw new Refused("unknown_attempt", errorAnswer(404, "unknown_attempt", message));
    }
    if (state === "ended") this.surroundings.counts.stale += 1;
    return { rolloutId, attemptId, sequenceId, stale: state === "ended" };
  }

  async #askStore(rolloutId: string, attemptId: string) {
    try {
      const state = await this.#attempts.stateOf(rolloutId, attemptId);
      const sequenceId = state === "unknown" ? 0 : await this.#store.nextSequenceId(rolloutId, attemptId);
      return { state, sequenceId };
    } catch (error) {
      this.surroundings.log.warning("the store cannot be asked about a call", { error: messageOf(error) });
      throw unavailable("store_unavailable", "the store cannot be reached; try again");
    }
  }
}

function unavailable(reason: Refusal, message: string): Refused {
  return new Refused(reason, errorAnswer(503, reason, message, { retryAfterSeconds: 5 }));
}

/** From the path, else from the headers; null when the call names no attempt. */
function attemptIds(context: Context): AttemptIds | null {
  const rolloutId = context.req.param("rolloutId") ?? context.req.header("x-rollout-id");
  const attemptId = context.req.param("attemptId") ?? context.req.header("x-attempt-id");
  if (rolloutId === undefined && attemptId === undefined) return null;
  if (!rolloutId || !attemptId) {
    const message = "x-rollout-id and x-attempt-id belong together: send both or neither";
    throw new Refused("bad_request", errorAnswer(400, "invalid_request", message));
  }
  return { rolloutId, attemptId };
}
