import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { createLogger } from "../log.ts";
import { serveStore } from "../server/serve.ts";
import { openStore } from "../store/sqlite-store.ts";
import { checkPort } from "./ports.ts";
import { Shutdown } from "./shutdown.ts";
import { stopOnSignals, untilStopped } from "./stop-signals.ts";

/** `agl store`: the durable store, until it is stopped. */
export async function serveStoreCommand(config: Config): Promise<number> {
  const log = createLogger("store", { level: config.log_level });
  const say = (line: string) => console.log(line);
  const port = config["store.port"];
  checkPort("store.port", port);
  const path = config["store.db"] === ":memory:" ? ":memory:" : resolve(config["store.db"]);
  const stop = stopOnSignals(() => say("stopping: requests under way are answered first"));
  const shutdown = new Shutdown();
  try {
    const store = openStore({ path, log, scanDebounceSeconds: config["store.scan_debounce_seconds"] });
    shutdown.add("database", () => store.close());
    const server = serveStore({ store, hostname: "127.0.0.1", port, log });
    shutdown.add("server", () => server.stop());
    say(`store: ${server.url}  database ${path}`);
    return await untilStopped(stop.signal);
  } finally {
    await shutdown.run();
    stop.release();
  }
}
