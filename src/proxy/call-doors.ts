import type { Context } from "hono";
import type { ModelRequest } from "../chat/model-request.ts";
import { readModelRequest } from "../chat/model-request.ts";
import { readLimitedText } from "../chat/limited-body.ts";
import type { Arrival } from "./recording/arrivals.ts";
import { Arrivals } from "./recording/arrivals.ts";
import type { AttemptIds } from "./recording/attempt-key.ts";
import { directFetch } from "../client/loopback-fetch.ts";
import { messageOf } from "../errors.ts";
import { silentLogger } from "../log.ts";
import { Delivery, type Send } from "./servers/delivery.ts";
import { completeCalls } from "./recording/late-answers.ts";
import type { CallFacts, CallSurroundings, ModelCallOptions } from "./model-call.ts";
import { forwardModelCall } from "./model-call.ts";
import type { ProxyStatistics } from "./counts.ts";
import { createCounts } from "./counts.ts";
import { errorAnswer } from "./error-answer.ts";
import { postOver } from "./exchange/post.ts";
import { LoopbackConnections } from "./exchange/loopback-connections.ts";
import { Fingerprints } from "./servers/fingerprints.ts";
import { FinishedCalls } from "./recording/finished-calls.ts";
import type { KnownAttempts } from "./recording/known-attempts.ts";
import { createKnownAttempts } from "./recording/known-attempts.ts";
import { countUnrecorded, passThrough } from "./routes/pass-through.ts";
import type { ProxyOptions } from "./proxy.ts";
import type { ChooseRoute } from "./routes/recorded-route.ts";
import { Recorder } from "./recording/recorder.ts";
import { Refused, unavailable } from "./refusal.ts";
import { RepeatedCalls } from "./recording/repeated-calls.ts";
import { Spool } from "./recording/spool.ts";
import type { UpstreamTable } from "./servers/upstream-table.ts";

export const defaultMaxBodyBytes = 64 * 1024 * 1024;

/** As the path of a call names it. */
export type NamedAttempt = Partial<AttemptIds>;

/** What happens behind each route. */
export class CallDoors {
  readonly recorder: Recorder;
  readonly surroundings: CallSurroundings;
  readonly #attempts: KnownAttempts;
  readonly #arrivals: Arrivals;
  readonly #repeated = new RepeatedCalls();
  readonly #delivery: Delivery;
  readonly #connections = new LoopbackConnections();
  readonly #maxBodyBytes: number;
  readonly #attemptFlushTimeoutMs: number;
  #closed = false;

  constructor(options: ProxyOptions) {
    const { store, log = silentLogger, now = Date.now } = options;
    const fetch = options.fetch ?? directFetch;
    this.recorder = recorderOf(options, (attempt) => this.#arrivals.settled(attempt));
    this.#arrivals = new Arrivals({
      store,
      isAway: () => this.recorder.storeIsAway,
      ...(options.storePatienceMs === undefined ? {} : { patienceMs: options.storePatienceMs }),
    });
    this.surroundings = {
      post: postOver(this.#connections, fetch),
      counts: createCounts(),
      fingerprints: new Fingerprints(),
      finished: new FinishedCalls(),
      log,
      now,
      firstByteTimeoutMs: options.firstByteTimeoutMs ?? 600_000,
      maxAnswerBytes: options.maxAnswerBytes ?? 256 * 1024 * 1024,
    };
    this.#delivery = new Delivery(options, { fetch, log });
    this.#attempts = createKnownAttempts({ store });
    this.#maxBodyBytes = options.maxBodyBytes ?? defaultMaxBodyBytes;
    this.#attemptFlushTimeoutMs = options.attemptFlushTimeoutMs ?? 30_000;
  }

  statistics(): ProxyStatistics {
    const { counts } = this.surroundings;
    const recorded = this.recorder.statistics();
    return {
      ...structuredClone(counts),
      ...recorded,
      stale: counts.stale + recorded.callsFoundStale,
      ...this.#delivery.statistics(),
    };
  }

  async flush(deadlineMs: number): Promise<void> {
    if (await this.recorder.flush(deadlineMs)) return;
    const { openCalls, waitingCalls, spooledCalls } = this.recorder.statistics();
    const fields = { open: openCalls, in_memory: waitingCalls, on_disk: spooledCalls };
    this.surroundings.log.warning("some calls are not stored yet", fields);
  }

  get upstreams(): UpstreamTable {
    return this.#delivery.upstreams;
  }

  /** Calls that wait for a model server are refused now. */
  refuseHeld(): void {
    this.#delivery.refuseHeld();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#delivery.close();
    await this.recorder.close();
    this.#connections.close();
  }

  models(context: Context): Response {
    const data = this.upstreams.names().map((id) => ({ id, object: "model", created: 0, owned_by: "agl" }));
    return context.json({ object: "list", data });
  }

  /**
   * A runner calls this before it ends the attempt, so that what it ends is complete. With `?ends=true`, whatever comes
   * from then on is late. Answered with 204 when the store has committed every call so far.
   */
  async flushAttempt(context: Context): Promise<Response> {
    const rolloutId = context.req.param("rolloutId") ?? "";
    const attemptId = context.req.param("attemptId") ?? "";
    if (context.req.query("ends") === "true") this.#attempts.seal({ rolloutId, attemptId });
    const stored = await this.recorder.flush(this.#attemptFlushTimeoutMs, rolloutId, attemptId);
    if (stored) return context.body(null, 204);
    return errorAnswer(
      504,
      "not_stored",
      "calls of this attempt are still open, or the store has not taken them",
    );
  }

  record(request: Request, named: NamedAttempt, choose: ChooseRoute): Promise<Response> {
    return this.#refusing(() => {
      const ids = attemptIds(request, named);
      if (ids !== null) {
        this.surroundings.counts.calls += 1;
        return this.#recorded(request, choose, ids);
      }
      if (this.surroundings.counts.unattributed++ === 0) {
        this.surroundings.log.warning("calls without a rollout and attempt are forwarded and not recorded");
      }
      return this.#unrecorded(request, named, (call, target, isLastTry) =>
        this.#forward(request, choose, { request: call, target, recording: null, isLastTry }),
      );
    });
  }

  #recorded(request: Request, choose: ChooseRoute, ids: AttemptIds): Promise<Response> {
    let read: ModelRequest | undefined;
    let facts: CallFacts | undefined;
    // Once for all tries of the call, and only when the first one is on its way: the agent waits for that.
    const learn = ({ text }: ModelRequest): CallFacts => (facts ??= this.#facts(ids, text, request.headers));
    return this.#delivery.patiently(request, async (mayWait) => {
      // Begun before anything is awaited, so that a flush which comes now waits for this call; not while it is held.
      const open = this.recorder.begin(ids.rolloutId, ids.attemptId);
      try {
        const call = (read ??= await this.#readRequest(request));
        const wish = { modelName: call.modelName, rolloutId: ids.rolloutId, mayWait };
        let answer: Response | null = null;
        if (this.#delivery.isServed(wish)) {
          await this.#admit(ids);
          const recording = { ids, facts: () => learn(call), askNow: () => this.#arrivals.askNow(), open };
          const answering = this.#delivery.reach(wish, (target, isLastTry) =>
            this.#forward(request, choose, { request: call, recording, target, isLastTry }),
          );
          learn(call);
          answer = await answering;
        }
        if (answer === null) open.discard();
        return answer ?? call;
      } catch (error) {
        open.discard();
        throw error;
      }
    });
  }

  async #unrecorded(
    request: Request,
    named: NamedAttempt,
    send: (call: ModelRequest, ...rest: Parameters<Send>) => ReturnType<Send>,
  ): Promise<Response> {
    const call = await this.#readRequest(request);
    const { modelName } = call;
    const rolloutId = attemptIds(request, named)?.rolloutId;
    return await this.#delivery.patiently(request, async (mayWait) => {
      const wish = { modelName, rolloutId, mayWait };
      if (!this.#delivery.isServed(wish)) return call;
      return (await this.#delivery.reach(wish, (...rest) => send(call, ...rest))) ?? call;
    });
  }

  #forward(
    agent: Request,
    choose: ChooseRoute,
    call: Pick<ModelCallOptions, "request" | "target" | "recording" | "isLastTry">,
  ): Promise<Response | null> {
    const route = choose(call.request, call.target.upstream, call.recording !== null);
    return forwardModelCall({ ...call, route, surroundings: this.surroundings, agent });
  }

  pass(request: Request, named: NamedAttempt, route: string): Promise<Response> {
    return this.#refusing(() => {
      countUnrecorded(this.surroundings, route);
      const common = { surroundings: this.surroundings, route, agent: request };
      return this.#unrecorded(request, named, (call, target, isLastTry) =>
        passThrough({ ...common, request: call, target, isLastTry }),
      );
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

  async #readRequest(request: Request): Promise<ModelRequest> {
    if (this.#closed) throw unavailable("closed", "the proxy is closing");
    const encoding = request.headers.get("content-encoding");
    if (encoding !== null && encoding !== "identity") {
      const message = `content-encoding is ${encoding}: send the body uncompressed`;
      throw new Refused("bad_request", errorAnswer(415, "unsupported_encoding", message));
    }
    let text: string | null;
    try {
      text = await readLimitedText(request, this.#maxBodyBytes);
    } catch {
      throw new Refused("bad_request", errorAnswer(400, "invalid_request", "the body ended too early"));
    }
    if (text === null) {
      const message = `the body is larger than ${this.#maxBodyBytes} bytes`;
      throw new Refused("bad_request", errorAnswer(413, "body_too_large", message));
    }
    const read = readModelRequest(text);
    if (read.ok) return read.request;
    throw new Refused(
      "bad_request",
      errorAnswer(400, "invalid_request", read.message, { param: read.param }),
    );
  }

  /**
   * An attempt that is known goes on while the store is away. A new one has to be asked about: without an answer it is
   * refused, since nobody could say later whose call it was.
   */
  async #admit(ids: AttemptIds): Promise<void> {
    if (this.recorder.refusesCalls()) {
      throw unavailable("recording_backlog", "the store has not taken earlier calls yet; try again");
    }
    if (this.#attempts.isKnown(ids) || (await this.#exists(ids))) return;
    const message = `there is no attempt ${ids.attemptId} of a rollout ${ids.rolloutId}`;
    throw new Refused("unknown_attempt", errorAnswer(404, "unknown_attempt", message));
  }

  async #exists(ids: AttemptIds): Promise<boolean> {
    try {
      return await this.#attempts.exists(ids);
    } catch (error) {
      this.surroundings.log.warning("the store cannot be asked about a call", { error: messageOf(error) });
      throw unavailable("store_unavailable", "the store cannot be reached; try again");
    }
  }

  #facts(ids: AttemptIds, text: string, headers: Headers): CallFacts {
    let arrived = false;
    const arrival = this.#announce(ids).finally(() => (arrived = true));
    return { arrival, hasArrived: () => arrived, repetition: this.#repeated.of(ids, text, headers) };
  }

  async #announce(ids: AttemptIds): Promise<Arrival> {
    const sealed = this.#attempts.isSealed(ids);
    const arrival = await this.#arrivals.announce(ids);
    return { ...arrival, ended: sealed || arrival.ended };
  }
}

function recorderOf(
  { store, log = silentLogger, spool, maxWaitingCalls, storePatienceMs, whenFull }: ProxyOptions,
  onSettled: (attempt: string) => void,
): Recorder {
  return new Recorder({
    store,
    log,
    spool: spool === undefined ? undefined : new Spool({ ...spool, log }),
    complete: (calls) => completeCalls(store, calls),
    onSettled,
    ...(whenFull === undefined ? {} : { whenFull }),
    ...(maxWaitingCalls === undefined ? {} : { maxWaitingCalls }),
    ...(storePatienceMs === undefined ? {} : { patienceMs: storePatienceMs }),
  });
}

/** From the path, else from the headers; null when the call names no attempt. */
function attemptIds({ headers }: Request, named: NamedAttempt): AttemptIds | null {
  const rolloutId = named.rolloutId ?? headers.get("x-rollout-id");
  const attemptId = named.attemptId ?? headers.get("x-attempt-id");
  if (rolloutId === null && attemptId === null) return null;
  if (!rolloutId || !attemptId) {
    const message = "x-rollout-id and x-attempt-id belong together: send both or neither";
    throw new Refused("bad_request", errorAnswer(400, "invalid_request", message));
  }
  return { rolloutId, attemptId };
}
