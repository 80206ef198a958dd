import { AglError, messageOf } from "../errors.ts";
import { silentLogger } from "../log.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import { createStoreApp, defaultMaxBodyBytes } from "./store-app.ts";

export interface ServeStoreOptions {
  store: StoreApi & { storeId?: string };
  hostname: string;
  /** 0 takes any free port. */
  port: number;
  log?: Logger;
}

export interface StoreServer {
  url: string;
  port: number;
  stop(): Promise<void>;
}

/** How long a stop waits for the requests that it accepted. */
const stopDeadlineMs = 5_000;

/** Serves the store until `stop`, which ends held answers, answers what was accepted, and closes. */
export function serveStore({ store, hostname, port, log = silentLogger }: ServeStoreOptions): StoreServer {
  const stopping = new AbortController();
  const app = createStoreApp(store, { stopping: stopping.signal, log });
  const server = listen(hostname, port, app.fetch);
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

function listen(hostname: string, port: number, fetch: (request: Request) => Response | Promise<Response>) {
  try {
    return Bun.serve({
      hostname,
      port,
      fetch,
      // The idle timer also runs while an answer is held (W-23).
      idleTimeout: 0,
      // The app answers 413 itself; this only bounds what is read before it can.
      maxRequestBodySize: defaultMaxBodyBytes + 1024 * 1024,
      development: false,
      // Outside of development Bun shares a taken port unless told not to.
      reusePort: false,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new AglError("store", `port ${port} on ${hostname} is already in use`, {
      remedy: "stop the program that uses it or choose another port",
      cause: messageOf(error),
    });
  }
}
