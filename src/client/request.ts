import { AglError, StoreRequestError, messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import { exactAnswer } from "../protocol/json.ts";
import { storeIdHeader } from "../protocol/store-api.ts";
import type { DirectFetch } from "./loopback-fetch.ts";
import type { OtherStore } from "./other-store.ts";

export interface StoreRequest {
  method: "GET" | "POST";
  /** Below the API's prefix, for example `/rollouts`. */
  path: string;
  body?: unknown;
  signal?: AbortSignal;
  timeoutMs?: number;
  /** False for a request that must not be processed twice: it is repeated only when it never arrived. */
  repeatable?: boolean;
}

export interface Health {
  ok: boolean;
  storeId?: string;
  /** Whether the store knows `wait_seconds`. */
  waits: boolean;
  /** Why the store does not let us in; asking again will not help. */
  refused?: AglError;
  /** What something that is no store, or none yet, answered there. */
  instead?: string;
}

export interface RequesterOptions {
  url: string;
  /** Value of the `Authorization` header. */
  authorization?: string | undefined;
  fetch: DirectFetch;
  timeoutMs: number;
  retryDelaysMs: readonly number[];
  log: Logger;
  /** Answers written again by `stringifyJson` come out as the store sent them. */
  exact?: boolean;
  /** Told when a store with another id answers; may throw, which refuses that store's answers. */
  onOtherStore: (change: OtherStore) => void;
}

/** Delays before the second, third and fourth health probe (W-19). */
const probeDelaysMs = [100, 200, 500];
const probeTimeoutMs = 5_000;

/** What went wrong with one try, and whether the store may have processed it. */
class FailedTry extends Error {
  readonly arrived: boolean;
  readonly status: number | undefined;

  constructor(message: string, arrived: boolean, status?: number, cause?: unknown) {
    super(message, { cause });
    this.arrived = arrived;
    this.status = status;
  }
}

/** Sends requests by upstream's client rules (W-19): 5xx, 408 and network failures are repeated while the store is healthy. */
export class Requester {
  readonly #options: RequesterOptions;
  readonly #prefix: string;
  #storeId: string | null = null;

  constructor(options: RequesterOptions) {
    this.#options = options;
    this.#prefix = `${options.url.replace(/\/+$/, "")}/v1/agl`;
  }

  async send(request: StoreRequest): Promise<any> {
    for (const delayMs of [...this.#options.retryDelaysMs, null]) {
      try {
        return await this.#try(request);
      } catch (error) {
        if (!(error instanceof FailedTry)) throw error;
        const repeat =
          delayMs !== null && mayRepeat(request, error) && (await this.#becomesHealthy(request.signal));
        if (!repeat) throw this.#asStoreError(request, error);
        this.#options.log.warning("a store request is repeated", {
          path: request.path,
          after: error.message,
        });
        await sleep(delayMs, request.signal);
      }
    }
  }

  async health(signal?: AbortSignal): Promise<Health> {
    try {
      const response = await this.#fetch("/health", { signal: withTimeout(probeTimeoutMs, signal) });
      if (isDenied(response.status)) {
        const request = { method: "GET", path: "/health" } as const;
        return {
          ok: false,
          waits: false,
          refused: this.#denial(request, response.status, await response.text()),
        };
      }
      const body: unknown = response.ok ? await response.json().catch(() => null) : null;
      if (typeof body !== "object" || body === null) {
        const instead = `GET /v1/agl/health was answered with ${response.status}${response.ok ? " and no store's JSON" : ""}`;
        return { ok: false, waits: false, instead };
      }
      const { store_id: storeId, wait_seconds: waits } = body as Record<string, unknown>;
      return { ok: true, waits: waits === true, ...(typeof storeId === "string" ? { storeId } : {}) };
    } catch {
      return { ok: false, waits: false };
    }
  }

  async #try(request: StoreRequest): Promise<unknown> {
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(request.path, this.#init(request));
      text = await response.text();
    } catch (error) {
      request.signal?.throwIfAborted();
      throw new FailedTry(messageOf(error), !neverArrived(error), undefined, error);
    }
    if (isDenied(response.status)) throw this.#denial(request, response.status, text);
    this.#noteStore(response.headers.get(storeIdHeader));
    if (response.ok) return parseAnswer(response, text, this.#options.exact ? exactAnswer : JSON.parse);
    const unknownId = response.status === 500 ? upstreamRefusal(text) : undefined;
    if (unknownId !== undefined) throw new StoreRequestError(404, unknownId);
    if (response.status >= 500 || response.status === 408) {
      throw new FailedTry(
        `${response.status} ${text.slice(0, 500)}`,
        response.status !== 503,
        response.status,
      );
    }
    throw refusal(request, response.status, text);
  }

  #init(request: StoreRequest): RequestInit {
    const signal = withTimeout(request.timeoutMs ?? this.#options.timeoutMs, request.signal);
    if (request.body === undefined) return { method: request.method, signal };
    const headers = { "content-type": "application/json" };
    return { method: request.method, signal, headers, body: JSON.stringify(request.body) };
  }

  #fetch(path: string, init: RequestInit): Promise<Response> {
    const { authorization, fetch } = this.#options;
    if (authorization === undefined) return fetch(this.#prefix + path, init);
    return fetch(this.#prefix + path, {
      ...init,
      headers: { ...init.headers, authorization } as HeadersInit,
    });
  }

  /** Ours names itself in every answer, so that one that took its place is noticed. */
  #noteStore(storeId: string | null): void {
    const before = this.#storeId;
    if (storeId === null || storeId === before) return;
    if (before !== null) this.#options.onOtherStore({ url: this.#options.url, before, now: storeId });
    this.#storeId = storeId;
  }

  #denial({ method, path }: StoreRequest, status: number, text: string): AglError {
    const { url, authorization } = this.#options;
    const remedy =
      status === 401
        ? "set AGL_TOKEN, name the token's file with --token-file, or write the address as http://HOST:PORT/t/TOKEN"
        : undefined;
    const asked = authorization === undefined ? "asks for a token" : "refuses the token that it was sent";
    const why = status === 401 ? asked : `refuses ${method} ${path}: ${String(detailOf(text)).slice(0, 500)}`;
    return new AglError("store", `the store at ${url} ${why}`, remedy === undefined ? {} : { remedy });
  }

  async #becomesHealthy(signal: AbortSignal | undefined): Promise<boolean> {
    for (const delayMs of [...probeDelaysMs, null]) {
      if ((await this.health(signal)).ok) return true;
      if (delayMs !== null) await sleep(delayMs, signal);
    }
    return false;
  }

  #asStoreError({ method, path }: StoreRequest, error: FailedTry): AglError {
    const message = `the store at ${this.#options.url} did not answer ${method} ${path}: ${error.message}`;
    return new AglError("store", message, {
      remedy: "check that the store runs and that its address is right",
      cause: error,
    });
  }
}

function isDenied(status: number): boolean {
  return status === 401 || status === 403;
}

function mayRepeat({ repeatable }: StoreRequest, error: FailedTry): boolean {
  return repeatable !== false || !error.arrived;
}

function neverArrived(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === "ECONNREFUSED" || code === "ConnectionRefused" || code === "FailedToOpenSocket";
}

/** W-14: an answer of another type comes from something that is not a store. */
function parseAnswer(response: Response, text: string, parse: (text: string) => unknown): unknown {
  const type = response.headers.get("content-type") ?? "";
  if (!type.startsWith("application/json")) {
    throw new FailedTry(`the answer is ${type || "untyped"}, not JSON`, true, response.status);
  }
  try {
    return parse(text);
  } catch (error) {
    throw new FailedTry(`the answer is not JSON: ${messageOf(error)}`, true, response.status, error);
  }
}

function refusal({ method, path }: StoreRequest, status: number, text: string): Error {
  const detail = detailOf(text);
  if (status === 400 || status === 404 || status === 409 || status === 422) {
    return new StoreRequestError(status, detail);
  }
  return new AglError("store", `the store refused ${method} ${path}: ${status} ${JSON.stringify(detail)}`, {
    cause: { status },
  });
}

/** W-18: upstream answers 500 for a write to an unknown id; repeating that helps nobody. */
function upstreamRefusal(text: string): string | undefined {
  try {
    const { error_type: type, traceback } = JSON.parse(text) as Record<string, unknown>;
    if (type !== "ValueError" || typeof traceback !== "string") return undefined;
    return /^ValueError: (.+)$/m.exec(traceback)?.[1];
  } catch {
    return undefined;
  }
}

function detailOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { detail?: unknown }).detail ?? text;
  } catch {
    return text.slice(0, 500);
  }
}

function withTimeout(timeoutMs: number, signal: AbortSignal | undefined): AbortSignal {
  const timeout = AbortSignal.timeout(timeoutMs);
  return signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
}

async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => resolve(), { once: true });
  await promise;
  clearTimeout(timer);
  signal?.throwIfAborted();
}
