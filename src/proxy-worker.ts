import { connectStore } from "./client/http-store.ts";
import { AglError } from "./errors.ts";
import { createLogger } from "./log.ts";
import type { ProxyStatistics } from "./proxy/counts.ts";
import { createProxy, type RecordingProxy } from "./proxy/proxy.ts";
import { serveProxy } from "./proxy/serve.ts";
import { answerParent, listen } from "./service-messages.ts";

const stopFlushMs = 5_000;

let proxy: RecordingProxy | undefined;
let stop: (() => Promise<ProxyStatistics>) | undefined;

answerParent("proxy", async (request) => {
  if (request.type === "start-proxy") {
    const log = createLogger("proxy", { level: "warning", file: request.logFile });
    const { url, authorization } = request.store;
    const store = connectStore(url, { log, authorization });
    proxy = createProxy({ store, log, holdMs: request.holdMs, ...request.recording });
    const running = proxy;
    const { hostname } = request;
    const server = listen(request, (port) => serveProxy({ proxy: running, hostname, port }));
    stop = async () => {
      await server.stop();
      // Then they wait on disk.
      if (!running.statistics().storeAway) await running.flush(stopFlushMs);
      await running.close();
      await store.close();
      return running.statistics();
    };
    return { url: server.url, port: server.port };
  }
  if (request.type === "stop") return await stop?.();
  if (proxy === undefined) throw new AglError("upstream", "the proxy is not started");
  if (request.type === "upstreams") return proxy.setUpstreams(request.upstreams);
  if (request.type === "flush") return await proxy.flush(request.deadlineMs);
  throw new AglError("upstream", `the proxy worker does not know ${request.type}`);
});
