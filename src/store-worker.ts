import { startCheckpointThread } from "./checkpoint-thread.ts";
import { AglError } from "./errors.ts";
import { createLogger } from "./log.ts";
import { serveStore } from "./server/serve.ts";
import { answerParent, listen } from "./service-messages.ts";
import { openStore } from "./store/sqlite-store.ts";

let stop: (() => Promise<void>) | undefined;

answerParent("store", async (request) => {
  if (request.type === "start-store") {
    const log = createLogger("store", { level: "warning", file: request.logFile });
    const store = openStore({ path: request.path, log, startCheckpointer: startCheckpointThread });
    const { hostname, token } = request;
    const server = listen(request, (port) => serveStore({ store, hostname, port, token, log }));
    stop = async () => {
      await server.stop();
      await store.close();
    };
    return { url: server.url, port: server.port };
  }
  if (request.type === "stop") return await stop?.();
  throw new AglError("store", `the store worker does not know ${request.type}`);
});
