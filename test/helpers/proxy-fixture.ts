import type { ProxyOptions, RecordingProxy } from "../../src/proxy/proxy.ts";
import { createProxy } from "../../src/proxy/proxy.ts";
import type { ServedProxy } from "../../src/proxy/serve.ts";
import { serveProxy } from "../../src/proxy/serve.ts";
import type { Upstream } from "../../src/proxy/servers/upstreams.ts";
import type { Span } from "../../src/protocol/types.ts";
import type { FakeScript, FakeVllm } from "./fake-vllm.ts";
import { startFakeVllm } from "./fake-vllm.ts";
import type { MemorySink } from "./memory-sink.ts";
import { createMemorySink } from "./memory-sink.ts";

export interface ProxyFixture {
  proxy: RecordingProxy;
  server: ServedProxy;
  vllm: FakeVllm;
  sink: MemorySink;
  /** Of attempt at-1 of rollout ro-1. */
  baseUrl: string;
  post(
    body: object,
    options?: { path?: string; headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Response>;
  spans(name?: string): Promise<Span[]>;
  stop(): Promise<void>;
}

export function upstreamOf(vllm: FakeVllm, changes: Partial<Upstream> = {}): Upstream {
  return {
    modelName: "agent-model",
    model: "models/version_0",
    baseUrl: vllm.baseUrl,
    checkpoint: "version_0",
    provider: "hosted_vllm",
    ...changes,
  };
}

/** The real proxy on a real port before a scripted model server. */
export function startProxyFixture(script: FakeScript, options: Partial<ProxyOptions> = {}): ProxyFixture {
  const vllm = startFakeVllm(script);
  const sink = createMemorySink();
  const proxy = createProxy({ store: sink, upstreams: [upstreamOf(vllm)], ...options });
  const server = serveProxy({ proxy, hostname: "127.0.0.1", port: 0 });
  const baseUrl = `${server.url}/rollout/ro-1/attempt/at-1/v1`;
  return {
    proxy,
    server,
    vllm,
    sink,
    baseUrl,
    post: (body, { path, headers, signal } = {}) =>
      fetch(path === undefined ? `${baseUrl}/chat/completions` : server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ model: "agent-model", messages: [{ role: "user", content: "Hi" }], ...body }),
        ...(signal === undefined ? {} : { signal }),
      }),
    async spans(name) {
      await proxy.flush(5_000);
      return sink.spans.filter((span) => name === undefined || span.name === name);
    },
    async stop() {
      await server.stop(0);
      await proxy.close();
      await vllm.stop();
    },
  };
}
