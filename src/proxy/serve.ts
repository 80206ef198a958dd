import { AglError } from "../errors.ts";
import type { RecordingProxy } from "./proxy.ts";
import { defaultMaxBodyBytes } from "./call-doors.ts";

export interface ServedProxy {
  url: string;
  port: number;
  /** Takes no new calls, lets those in flight finish, and cuts what is left after `graceMs`. */
  stop(graceMs?: number): Promise<void>;
}

export function serveProxy(options: {
  proxy: Pick<RecordingProxy, "fetch" | "refuseHeld">;
  hostname: string;
  port: number;
  maxBodyBytes?: number;
}): ServedProxy {
  const { proxy, hostname, port, maxBodyBytes = defaultMaxBodyBytes } = options;
  let server: Bun.Server<undefined>;
  try {
    server = Bun.serve({
      hostname,
      port,
      fetch: (request) => proxy.fetch(request),
      // A model may think for minutes between two bytes.
      idleTimeout: 0,
      // Else Bun prints a stack trace whenever a model server breaks off.
      development: false,
      // Which `development: false` turns on: two proxies would share the port without a word.
      reusePort: false,
      maxRequestBodySize: maxBodyBytes,
    });
  } catch (error) {
    throw listenError(error, hostname, port);
  }
  return {
    url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${server.port}`,
    port: server.port ?? port,
    stop: async (graceMs = 10_000) => {
      const cut = setTimeout(() => void server.stop(true), graceMs);
      const stopped = server.stop();
      proxy.refuseHeld();
      await stopped;
      clearTimeout(cut);
    },
  };
}

function listenError(error: unknown, hostname: string, port: number): unknown {
  if ((error as { code?: string }).code !== "EADDRINUSE") return error;
  return new AglError("configuration", `the proxy cannot listen on ${hostname}:${port}: the port is taken`, {
    remedy: "Stop the other program, or choose another port; 0 takes a free one.",
    cause: error,
  });
}
