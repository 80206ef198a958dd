import type { StoreAddress } from "./client/store-address.ts";
import { AglError } from "./errors.ts";
import type { ProxyStatistics } from "./proxy/counts.ts";
import type { ProxyOptions } from "./proxy/proxy.ts";
import type { Upstream } from "./proxy/servers/upstreams.ts";

export interface ListenOptions {
  hostname: string;
  port: number;
  /** When the port is taken, any free one will do. */
  anyPort: boolean;
}

interface StoreStart {
  path: string;
  /** What its callers have to send, if anything. */
  token: string | undefined;
  logFile: string;
}

interface ProxyStart {
  store: StoreAddress;
  logFile: string;
  recording: Pick<ProxyOptions, "spool" | "whenFull">;
  /** How long calls wait for an engine that is away. */
  holdMs: number;
}

/** What a service worker is told, and what it answers. */
export type ServiceRequest =
  | ({ id: number; type: "start-store" } & StoreStart & ListenOptions)
  | ({ id: number; type: "start-proxy" } & ProxyStart & ListenOptions)
  | { id: number; type: "upstreams"; upstreams: Upstream[] }
  | { id: number; type: "flush"; deadlineMs: number }
  | { id: number; type: "stop" };

export type ServiceAnswer =
  | { id: number; ok: true; value: unknown }
  | { id: number; ok: false; boundary: AglError["boundary"]; message: string; remedy: string | undefined };

type Unnumbered<Request> = Request extends { id: number } ? Omit<Request, "id"> : never;

/** A server in a Bun worker of its own, so that a large query never delays a token. */
class ServiceWorker {
  readonly #worker: Worker;
  readonly #waiting = new Map<
    number,
    { resolve: (value: unknown) => void; reject: (error: unknown) => void }
  >();
  #nextId = 1;
  #ended: AglError | undefined;

  constructor(name: string, url: URL) {
    this.#worker = new Worker(url);
    this.#worker.addEventListener("message", ({ data }: MessageEvent<ServiceAnswer>) => this.#answer(data));
    this.#worker.addEventListener("error", (event) =>
      this.#end(`the ${name} worker failed: ${event.message}`),
    );
    this.#worker.addEventListener("close", () => this.#end(`the ${name} worker ended`));
  }

  ask(request: Unnumbered<ServiceRequest>): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ ...request, id });
    });
  }

  /** Returns where it listens. */
  async start(request: Unnumbered<ServiceRequest>): Promise<Listening> {
    try {
      return (await this.ask(request)) as Listening;
    } catch (error) {
      this.#worker.terminate();
      throw error;
    }
  }

  /** Returns what the service says at its end; undefined when it had ended already. */
  async stop(): Promise<unknown> {
    const last = this.#ended === undefined ? await this.ask({ type: "stop" }) : undefined;
    this.#worker.terminate();
    return last;
  }

  #answer(answer: ServiceAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (answer.ok) waiting?.resolve(answer.value);
    else {
      const { boundary, message, remedy } = answer;
      waiting?.reject(new AglError(boundary, message, remedy === undefined ? {} : { remedy }));
    }
  }

  #end(reason: string): void {
    this.#ended ??= new AglError("store", reason);
    for (const { reject } of this.#waiting.values()) reject(this.#ended);
    this.#waiting.clear();
  }
}

interface Listening {
  url: string;
  port: number;
}

export interface RunningService extends Listening {
  stop(): Promise<void>;
}

export interface RunningProxy extends Listening {
  /** Atomic and live: calls in flight finish on the old list. With an empty list calls wait, then get 503. */
  setUpstreams(upstreams: Upstream[]): Promise<void>;
  /** Returns when all recorded calls are stored. */
  flush(deadlineMs: number): Promise<void>;
  /** Returns what it has done; undefined when it had ended already. */
  stop(): Promise<ProxyStatistics | undefined>;
}

export async function startStoreWorker(options: StoreStart & ListenOptions): Promise<RunningService> {
  const worker = new ServiceWorker("store", new URL("./store-worker.ts", import.meta.url));
  const { url, port } = await worker.start({ type: "start-store", ...options });
  return { url, port, stop: async () => void (await worker.stop()) };
}

export async function startProxyWorker(options: ProxyStart & ListenOptions): Promise<RunningProxy> {
  const worker = new ServiceWorker("proxy", new URL("./proxy-worker.ts", import.meta.url));
  const { url, port } = await worker.start({ type: "start-proxy", ...options });
  return {
    url,
    port,
    setUpstreams: async (upstreams) => void (await worker.ask({ type: "upstreams", upstreams })),
    flush: async (deadlineMs) => void (await worker.ask({ type: "flush", deadlineMs })),
    stop: async () => (await worker.stop()) as ProxyStatistics | undefined,
  };
}
