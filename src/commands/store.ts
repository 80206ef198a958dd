import { resolve } from "node:path";
import { startCheckpointThread } from "../checkpoint-thread.ts";
import type { Config } from "../config.ts";
import { createLogger } from "../log.ts";
import { requireTokenBeyondLoopback, serveStore } from "../server/serve.ts";
import { openStore } from "../store/sqlite-store.ts";
import { isLoopbackHost } from "../web-names.ts";
import { accessToken } from "./access-token.ts";
import { checkPort } from "./ports.ts";
import { Shutdown } from "./shutdown.ts";
import { stopOnSignals, untilStopped } from "./stop-signals.ts";

/** `agl store`: the durable store, until it is stopped. */
export async function serveStoreCommand(
  config: Config,
  { environment }: { environment: Record<string, string | undefined> },
): Promise<number> {
  const log = createLogger("store", { level: config.log_level });
  const say = (line: string) => console.log(line);
  const hostname = config["store.host"];
  const port = config["store.port"];
  const token = accessToken(config, environment);
  requireTokenBeyondLoopback(hostname, token);
  if (isLoopbackHost(hostname)) checkPort("store.port", port);
  const path = config["store.db"] === ":memory:" ? ":memory:" : resolve(config["store.db"]);
  const stop = stopOnSignals(() => say("stopping: requests under way are answered first"));
  const shutdown = new Shutdown();
  try {
    const store = openStore({
      path,
      log,
      scanDebounceSeconds: config["store.scan_debounce_seconds"],
      startCheckpointer: startCheckpointThread,
    });
    shutdown.add("database", () => store.close());
    const server = serveStore({
      store,
      hostname,
      port,
      token,
      allowedHosts: config["store.allowed_host"],
      corsOrigins: config["store.cors_origin"],
      log,
      ...(config["store.access_log"] ? { accessLog: createLogger("access", { level: "info" }) } : {}),
    });
    shutdown.add("server", () => server.stop());
    if (token === undefined && config["store.cors_origin"].includes("*"))
      log.warning("every web page that this machine's browsers open can read and change the store");
    say(`store: ${server.url}  database ${path}${token === undefined ? "" : "  a token is needed"}`);
    return await untilStopped(stop.signal);
  } finally {
    await shutdown.run();
    stop.release();
  }
}
