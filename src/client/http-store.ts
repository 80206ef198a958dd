import { AglError, StoreRequestError } from "../errors.ts";
import { silentLogger } from "../log.ts";
import type { Logger } from "../log.ts";
import type {
  AttemptPatch,
  CallOptions,
  DequeueRequest,
  EnqueueRolloutRequest,
  NumberRequest,
  Paging,
  ResourcesQuery,
  RolloutPatch,
  RolloutQuery,
  SequenceNumber,
  SpanBatchResult,
  SpanQuery,
  StartRolloutRequest,
  StoreApi,
  WaitRequest,
  WorkerQuery,
} from "../protocol/store-api.ts";
import type {
  Attempt,
  AttemptedRollout,
  JsonObject,
  NamedResources,
  Page,
  ResourcesUpdate,
  Rollout,
  Span,
  Statistics,
  Worker,
} from "../protocol/types.ts";
import { directFetch } from "./loopback-fetch.ts";
import type { DirectFetch } from "./loopback-fetch.ts";
import { describeOtherStore } from "./other-store.ts";
import type { OtherStore } from "./other-store.ts";
import { numberOneByOne } from "./number-one-by-one.ts";
import { Requester } from "./request.ts";
import type { Health, StoreRequest } from "./request.ts";
import { storeAddress } from "./store-address.ts";

export interface HttpStoreOptions {
  fetch?: DirectFetch;
  /** Limit of one request, on top of the time that it asks the store to wait. */
  timeoutMs?: number;
  /** Pauses before a request is repeated; as many as there are repeats. */
  retryDelaysMs?: readonly number[];
  log?: Logger;
  /** For answers that are written down again: `stringifyJson` gives back what the store sent, digit for digit. */
  exact?: boolean;
  /** Value of the `Authorization` header, unless the address itself holds a token. */
  authorization?: string | undefined;
  /** Told when another store answers than before; may throw, which refuses its answers. Without it, a warning is logged. */
  onOtherStore?: (change: OtherStore) => void;
}

/** Longest single wait; a longer one is asked for in pieces, so that a vanished store is noticed. */
const longestWaitSeconds = 25;

/** A store at an address such as `http://127.0.0.1:4747`: ours, or agentlightning's own. */
export function connectStore(url: string, options: HttpStoreOptions = {}): HttpStore {
  return new HttpStore(url, options);
}

export class HttpStore implements StoreApi {
  /** Without the token that the address may hold. */
  readonly url: string;
  readonly #requester: Requester;
  readonly #timeoutMs: number;
  readonly #closing = new AbortController();
  #knowsBatch = true;
  #numbersMany = true;

  constructor(url: string, options: HttpStoreOptions = {}) {
    const { fetch = directFetch, timeoutMs = 30_000, retryDelaysMs = [1000, 2000, 5000] } = options;
    const address = storeAddress(url);
    const { authorization = options.authorization } = address;
    this.url = address.url;
    this.#timeoutMs = timeoutMs;
    const log = options.log ?? silentLogger;
    const { exact = false, onOtherStore = (change) => log.warning(describeOtherStore(change)) } = options;
    this.#requester = new Requester({
      url: address.url,
      authorization,
      fetch,
      timeoutMs,
      retryDelaysMs,
      log,
      exact,
      onOtherStore,
    });
  }

  /** Never throws: `ok` is false when the store cannot be reached. */
  health(): Promise<Health> {
    return this.#requester.health(this.#closing.signal);
  }

  /** Ends the requests in flight. */
  async close(): Promise<void> {
    this.#closing.abort(new AglError("store", "the connection to the store is closed"));
  }

  enqueueRollouts(requests: EnqueueRolloutRequest[]): Promise<Rollout[]> {
    return this.#post("/queues/rollouts/enqueue", { rollouts: requests }, { repeatable: false });
  }

  /** On an aborted signal the answer is empty. */
  dequeueRollouts(request: DequeueRequest, options: CallOptions = {}): Promise<AttemptedRollout[]> {
    const wait = this.#waiting(request.wait_seconds ?? 0, options);
    return emptyWhenAborted(options.signal, () =>
      this.#post("/queues/rollouts/dequeue", request, { ...wait, repeatable: false }),
    );
  }

  startRollout(request: StartRolloutRequest): Promise<AttemptedRollout> {
    return this.#post("/rollouts", request, { repeatable: false });
  }

  startAttempt(rolloutId: string, workerId?: string | null): Promise<AttemptedRollout> {
    const body = { worker_id: workerId ?? null };
    return this.#post(`${rolloutPath(rolloutId)}/attempts`, body, { repeatable: false });
  }

  queryRollouts(query: RolloutQuery): Promise<Page<Rollout | AttemptedRollout>> {
    return this.#post("/rollouts/search", query);
  }

  getRollout(rolloutId: string): Promise<Rollout | AttemptedRollout | null> {
    return this.#get(rolloutPath(rolloutId));
  }

  updateRollout(rolloutId: string, patch: RolloutPatch): Promise<Rollout> {
    return this.#post(rolloutPath(rolloutId), patch);
  }

  /** On an aborted signal the answer is empty. */
  waitForRollouts(request: WaitRequest, options: CallOptions = {}): Promise<Rollout[]> {
    return emptyWhenAborted(options.signal, () => {
      if (request.wait_seconds === undefined) return this.#waitForAll(request, options);
      const wait = this.#waiting(request.wait_seconds, options);
      return this.#post("/waits/rollouts", { timeout: 0, ...request }, wait);
    });
  }

  queryAttempts(rolloutId: string, paging: Paging = {}): Promise<Page<Attempt>> {
    return this.#post(`${rolloutPath(rolloutId)}/attempts/search`, paging);
  }

  getLatestAttempt(rolloutId: string): Promise<Attempt | null> {
    return this.#get(`${rolloutPath(rolloutId)}/attempts/latest`);
  }

  updateAttempt(rolloutId: string, attemptId: string, patch: AttemptPatch): Promise<Attempt> {
    return this.#post(`${rolloutPath(rolloutId)}/attempts/${encodeURIComponent(attemptId)}`, patch);
  }

  queryResources(query: ResourcesQuery): Promise<Page<ResourcesUpdate>> {
    const parameters = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const text = new URLSearchParams(parameters.map(([name, value]) => [name, String(value)])).toString();
    return this.#get(text === "" ? "/resources" : `/resources?${text}`);
  }

  addResources(resources: NamedResources): Promise<ResourcesUpdate> {
    return this.#post("/resources", resources);
  }

  updateResources(resourcesId: string, resources: NamedResources): Promise<ResourcesUpdate> {
    return this.#post(`/resources/${encodeURIComponent(resourcesId)}`, resources);
  }

  getResources(resourcesId: string): Promise<ResourcesUpdate | null> {
    return this.#get(`/resources/${encodeURIComponent(resourcesId)}`);
  }

  getLatestResources(): Promise<ResourcesUpdate | null> {
    return this.#get("/resources/latest");
  }

  addSpan(span: Span): Promise<Span | null> {
    return this.#post("/spans", span);
  }

  /** One request; against a store without our batch route, one request per span. */
  async addSpans(spans: Span[]): Promise<SpanBatchResult> {
    if (spans.length === 0) return { stored: 0, duplicates: 0, rejected: [] };
    if (!this.#knowsBatch) return this.#addOneByOne(spans);
    try {
      return await this.#post("/spans/batch", { spans });
    } catch (error) {
      if (!isUnknownRoute(error)) throw error;
      this.#knowsBatch = false;
      return this.#addOneByOne(spans);
    }
  }

  querySpans(query: SpanQuery): Promise<Page<Span>> {
    return this.#post("/spans/search", query);
  }

  async nextSequenceId(rolloutId: string, attemptId: string): Promise<number> {
    const answer = await this.#post("/spans/next", { rollout_id: rolloutId, attempt_id: attemptId });
    return (answer as { sequence_id: number }).sequence_id;
  }

  /** One request; against a store without our route, as many as it takes. */
  async nextSequenceIds(requests: NumberRequest[]): Promise<SequenceNumber[]> {
    if (requests.length === 0) return [];
    if (!this.#numbersMany) return await numberOneByOne(this, requests);
    try {
      const answer = await this.#post("/spans/next/batch", { spans: requests });
      return (answer as { spans: SequenceNumber[] }).spans;
    } catch (error) {
      if (!isUnknownRoute(error)) throw error;
      this.#numbersMany = false;
      return await numberOneByOne(this, requests);
    }
  }

  queryWorkers(query: WorkerQuery): Promise<Page<Worker>> {
    return this.#post("/workers/search", query);
  }

  getWorker(workerId: string): Promise<Worker | null> {
    return this.#get(`/workers/${encodeURIComponent(workerId)}`);
  }

  updateWorker(workerId: string, heartbeatStats?: JsonObject): Promise<Worker> {
    const body = heartbeatStats === undefined ? {} : { heartbeat_stats: heartbeatStats };
    return this.#post(`/workers/${encodeURIComponent(workerId)}`, body);
  }

  statistics(): Promise<Statistics> {
    return this.#get("/statistics");
  }

  /** A piece that the store answers before its time is over is the whole answer. */
  async #waitForAll(request: WaitRequest, options: CallOptions): Promise<Rollout[]> {
    const startedMs = performance.now();
    const limit = request.timeout ?? Number.POSITIVE_INFINITY;
    for (;;) {
      const elapsed = (performance.now() - startedMs) / 1000;
      const piece = Math.max(0, Math.min(longestWaitSeconds, limit - elapsed));
      const askedMs = performance.now();
      const answer: Rollout[] = await this.#post(
        "/waits/rollouts",
        { rollout_ids: request.rollout_ids, timeout: piece },
        this.#waiting(piece, options),
      );
      const isWhole = (performance.now() - askedMs) / 1000 < piece;
      if (isWhole || elapsed + piece >= limit) return answer;
    }
  }

  async #addOneByOne(spans: Span[]): Promise<SpanBatchResult> {
    const result: SpanBatchResult = { stored: 0, duplicates: 0, rejected: [] };
    for (const [index, span] of spans.entries()) {
      try {
        if ((await this.addSpan(span)) === null) result.duplicates += 1;
        else result.stored += 1;
      } catch (error) {
        if (!(error instanceof StoreRequestError)) throw error;
        result.rejected.push({ index, detail: error.message });
      }
    }
    return result;
  }

  #waiting(seconds: number, { signal }: CallOptions): Partial<StoreRequest> {
    return { timeoutMs: seconds * 1000 + this.#timeoutMs, ...(signal === undefined ? {} : { signal }) };
  }

  #get(path: string): Promise<any> {
    return this.#send({ method: "GET", path });
  }

  #post(path: string, body: unknown, extra: Partial<StoreRequest> = {}): Promise<any> {
    return this.#send({ method: "POST", path, body, ...extra });
  }

  async #send(request: StoreRequest): Promise<any> {
    const { signal: closing } = this.#closing;
    closing.throwIfAborted();
    const signal = request.signal === undefined ? closing : AbortSignal.any([request.signal, closing]);
    return this.#requester.send({ ...request, signal });
  }
}

function rolloutPath(rolloutId: string): string {
  return `/rollouts/${encodeURIComponent(rolloutId)}`;
}

/** Upstream answers the unknown route with 404 or 405. */
function isUnknownRoute(error: unknown): boolean {
  if (error instanceof StoreRequestError) return error.status === 404;
  return error instanceof AglError && (error.cause as { status?: number } | undefined)?.status === 405;
}

async function emptyWhenAborted<Item>(
  signal: AbortSignal | undefined,
  call: () => Promise<Item[]>,
): Promise<Item[]> {
  try {
    return signal?.aborted ? [] : await call();
  } catch (error) {
    if (signal?.aborted) return [];
    throw error;
  }
}
