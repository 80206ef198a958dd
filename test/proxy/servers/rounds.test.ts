import { afterEach, expect, test } from "bun:test";
import { parseModelList } from "../../../src/proxy/servers/model-list.ts";
import { createProxy } from "../../../src/proxy/proxy.ts";
import { serveProxy } from "../../../src/proxy/serve.ts";
import { type FakeVllm, replyAs, startFakeVllm } from "../../helpers/fake-vllm.ts";
import { createMemorySink } from "../../helpers/memory-sink.ts";

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const token = (version: number) => ({
  id: `chatcmpl-${version}-${Math.random()}`,
  prompt_token_ids: [1],
  pieces: [{ text: `from ${version}`, token_ids: [version] }],
});

function engine(version: number, gate: Promise<unknown> = Promise.resolve()): FakeVllm {
  const vllm = startFakeVllm(async (request) => {
    await gate;
    return replyAs(request, token(version));
  });
  stops.push(() => vllm.stop());
  return vllm;
}

const listOf = (version: number, vllm: FakeVllm) =>
  parseModelList(
    [
      {
        model_name: "agent-model",
        litellm_params: { model: `hosted_vllm/models/version_${version}`, api_base: vllm.baseUrl },
      },
    ],
    { environment: {} },
  );

function ask(url: string): Promise<string> {
  return fetch(`${url}/rollout/ro-1/attempt/at-1/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "agent-model", messages: [] }),
  }).then(async (answer) => {
    const body = (await answer.json()) as any;
    return answer.ok ? body.choices[0].message.content : `${answer.status}`;
  });
}

test("O16: three rounds, each with a new checkpoint and a new engine: every span names the checkpoint that answered", async () => {
  const sink = createMemorySink();
  const proxy = createProxy({ store: sink });
  let server = serveProxy({ proxy, hostname: "127.0.0.1", port: 0 });
  const { url, port } = server;
  const slow: Promise<string>[] = [];
  const gates: (() => void)[] = [];
  for (const version of [0, 1, 2]) {
    const gate = Promise.withResolvers<void>();
    gates.push(gate.resolve);
    // A call that is still under way when the next round begins.
    const held = engine(version, gate.promise);
    proxy.setUpstreams(listOf(version, held));
    slow.push(ask(url));
    while (held.requests.length === 0) await Bun.sleep(5);
    proxy.setUpstreams(listOf(version, engine(version)));
    expect(await Promise.all([ask(url), ask(url)])).toEqual([`from ${version}`, `from ${version}`]);
    if (version === 1) {
      // The server is started again in this process, as the algorithm of the original does it.
      const stopped = server.stop(5_000);
      server = serveProxy({ proxy, hostname: "127.0.0.1", port });
      stops.push(() => stopped);
    }
  }
  stops.push(() => server.stop(0));
  for (const open of gates) open();
  expect(await Promise.all(slow)).toEqual(["from 0", "from 1", "from 2"]);
  await proxy.flush(5_000);
  const raw = sink.spans.filter(({ name }) => name === "raw_gen_ai_request");
  expect(raw).toHaveLength(9);
  for (const { attributes } of raw) {
    const answered = JSON.parse(String(attributes["llm.hosted_vllm.response_token_ids"]))[0][0];
    expect(attributes["agl.call.checkpoint"]).toBe(`version_${answered}`);
    expect(attributes["llm.hosted_vllm.model"]).toBe(`models/version_${answered}`);
  }
  const counts = Map.groupBy(raw, ({ attributes }) => attributes["agl.call.checkpoint"]);
  expect([...counts.values()].map((group) => group.length)).toEqual([3, 3, 3]);
});

test("the proxy's server starts again on its port; calls in flight end where they began, and all are recorded", async () => {
  const sink = createMemorySink();
  const gate = Promise.withResolvers<void>();
  const vllm = engine(0, gate.promise);
  const proxy = createProxy({ store: sink, upstreams: listOf(0, vllm) });
  const first = serveProxy({ proxy, hostname: "127.0.0.1", port: 0 });
  const before = [ask(first.url), ask(first.url)];
  while (vllm.requests.length < 2) await Bun.sleep(5);
  const drained = first.stop(5_000);
  const second = serveProxy({ proxy, hostname: "127.0.0.1", port: first.port });
  stops.push(() => second.stop(0));
  const after = ask(second.url);
  while (vllm.requests.length < 3) await Bun.sleep(5);
  gate.resolve();
  expect(await Promise.all([...before, after])).toEqual(["from 0", "from 0", "from 0"]);
  await drained;
  await proxy.flush(5_000);
  expect(sink.spans.filter(({ name }) => name === "raw_gen_ai_request")).toHaveLength(3);
  expect(proxy.statistics().callsLost).toBe(0);
});
