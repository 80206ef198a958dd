import { join } from "node:path";
import type { TraceAdapter } from "../../src/adapter/adapters.ts";
import { selectRows } from "../../src/algorithm/select.ts";
import type { Span } from "../../src/protocol/types.ts";
import { createProxy } from "../../src/proxy/proxy.ts";
import { proxyResource } from "../../src/proxy/resource.ts";
import { serveProxy } from "../../src/proxy/serve.ts";
import type { Upstream } from "../../src/proxy/servers/upstreams.ts";
import type { RunnersOptions } from "../../src/runner/options.ts";
import { type RunnersFixture, startRunners } from "./runners-fixture.ts";

export const chattingAgent = join(import.meta.dir, "chatting-agent.ts");
export const fakeCalculator = [process.execPath, join(import.meta.dir, "fake-mcp-server.ts")];

export interface TracedRunners extends AsyncDisposable {
  runners: RunnersFixture;
  /** Resources that lead through the recording proxy, and straight to the model server. */
  proxied: string;
  direct: string;
}

/** Runners that trace their model calls, before a model server that can be asked with and without a proxy. */
export async function startTracedRunners(
  upstream: Pick<Upstream, "baseUrl" | "model">,
  options: Partial<RunnersOptions> = {},
): Promise<TracedRunners> {
  const runners = await startRunners({ tracer: "openai", agentFile: chattingAgent, model: null, ...options });
  const proxy = createProxy({
    store: runners.store,
    upstreams: [{ ...upstream, modelName: "agent-model", checkpoint: "version_0", provider: "hosted_vllm" }],
  });
  const server = serveProxy({ proxy, hostname: "127.0.0.1", port: 0 });
  const { store } = runners;
  const sampling_parameters = { temperature: 0 };
  const proxied = await store.addResources({
    main_llm: proxyResource(server.url, "agent-model", sampling_parameters),
  });
  const direct = await store.addResources({
    main_llm: {
      resource_type: "llm",
      endpoint: upstream.baseUrl,
      model: upstream.model,
      api_key: null,
      sampling_parameters,
    },
  });
  await runners.ready;
  return {
    runners,
    proxied: proxied.resources_id,
    direct: direct.resources_id,
    async [Symbol.asyncDispose]() {
      await runners[Symbol.asyncDispose]();
      await server.stop(0);
      await proxy.close();
    },
  };
}

/** The rows that training would get of these rollouts, without the order in which they are shuffled. */
export function rowsBy(adapt: TraceAdapter, rollouts: Span[][]) {
  const { kept, dropped } = selectRows({
    rollouts: rollouts.map((spans, index) => {
      const { triplets, dropped: left } = adapt(spans);
      return { rollout_id: `ro-${index}`, status: "succeeded" as const, triplets, dropped: left };
    }),
    rule: "recipe",
    fraction: 1,
    maxLength: 1_000_000,
    seed: 1,
  });
  return {
    kept: kept.toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1)),
    dropped,
  };
}
