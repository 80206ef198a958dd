import { AglError, messageOf, UsageError } from "../errors.ts";
import { silentLogger } from "../log.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { StoreObserver } from "../store/observer.ts";
import { isLoopbackHost } from "../web-names.ts";
import { StoreMetrics } from "./metrics/store-metrics.ts";
import { createStoreApp, defaultMaxBodyBytes } from "./store-app.ts";

export interface ServeStoreOptions {
  store: StoreApi & { storeId?: string; observe?: (observer: StoreObserver) => void };
  hostname: string;
  /** 0 takes any free port. */
  port: number;
  /** What every request has to show; needed wherever other machines can reach the store. */
  token?: string | undefined;
  /** Names, beside loopback's, under which it is asked for. */
  allowedHosts?: readonly string[];
  /** Origins whose web pages may use it. */
  corsOrigins?: readonly string[];
  log?: Logger;
  /** Gets a line for every request. */
  accessLog?: Logger | undefined;
  /** An idle connection is closed after it. */
  idleSeconds?: number;
}

export interface StoreServer {
  url: string;
  port: number;
  stop(): Promise<void>;
}

/** How long a stop waits for the requests that it accepted. */
const stopDeadlineMs = 5_000;

/** Python's clients use a connection again within 15 s (W-23); Bun's most is 255. */
const defaultIdleSeconds = 240;

/** Throws when other machines could use the store and nothing would keep strangers out. */
export function requireTokenBeyondLoopback(hostname: string, token: string | undefined): void {
  if (token !== undefined || isLoopbackHost(hostname)) return;
  throw new UsageError(
    `store.host: other machines can reach ${hostname}, and there is no token to keep strangers out`,
    "set AGL_TOKEN, or --token-file FILE (`openssl rand -hex 32 > FILE` makes one), or leave --host out",
  );
}

/** Serves the store until `stop`, which ends held answers, answers what was accepted, and closes. */
export function serveStore(options: ServeStoreOptions): StoreServer {
  const { store, hostname, port, token, allowedHosts = [], corsOrigins = [] } = options;
  const { log = silentLogger, accessLog, idleSeconds = defaultIdleSeconds } = options;
  requireTokenBeyondLoopback(hostname, token);
  const stopping = new AbortController();
  const metrics = new StoreMetrics();
  if (store.observe !== undefined) store.observe(metrics);
  // Pages of a name that was rebound to this machine can do nothing where a token is needed and they lack it.
  const hostNames = isLoopbackHost(hostname) ? allowedHosts : undefined;
  const access = { token, hostNames, corsOrigins };
  const app = createStoreApp(store, { stopping: stopping.signal, log, accessLog, access, metrics });
  const server = listen(hostname, port, idleSeconds, (request, server) => app.fetch(request, { server }));
  const shownHost = hostname.includes(":") ? `[${hostname}]` : hostname;
  return {
    url: `http://${shownHost}:${server.port}`,
    port: server.port!,
    async stop() {
      stopping.abort();
      const answered = server.stop().then(() => true);
      const deadline = Bun.sleep(stopDeadlineMs).then(() => false);
      if (await Promise.race([answered, deadline])) return;
      log.warning("requests were still unanswered when the store stopped", {
        requests: server.pendingRequests,
      });
      await server.stop(true);
    },
  };
}

type Fetch = (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>;

function listen(hostname: string, port: number, idleTimeout: number, fetch: Fetch) {
  try {
    return Bun.serve({
      hostname,
      port,
      fetch,
      // Runs while a body is awaited and between requests, not while an answer to a body is held (W-23).
      idleTimeout,
      // The app answers 413 itself; this only bounds what is read before it can.
      maxRequestBodySize: defaultMaxBodyBytes + 1024 * 1024,
      development: false,
      // Outside of development Bun shares a taken port unless told not to.
      reusePort: false,
    });
  } catch (error) {
    throw cannotListen(error, hostname, port);
  }
}

function cannotListen(error: unknown, hostname: string, port: number): AglError {
  const cause = messageOf(error);
  if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") {
    const remedy = "stop the program that uses it or choose another port";
    return new AglError("store", `port ${port} on ${hostname} is already in use`, { remedy, cause });
  }
  const remedy = "choose an address of this machine (127.0.0.1, or 0.0.0.0 for all), and a port above 1023";
  return new AglError("store", `cannot listen on port ${port} of ${hostname}: ${cause}`, { remedy, cause });
}
