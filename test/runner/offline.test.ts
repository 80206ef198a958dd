import { expect, test } from "bun:test";
import type { AttemptedRollout } from "../../src/protocol/types.ts";
import { tracers } from "../../src/runner/tracer.ts";
import { startRunnersProcess } from "../helpers/runners-process.ts";
import { serveScriptedModel } from "../helpers/scripted-model.ts";
import { chattingAgent, fakeCalculator } from "../helpers/traced-runners.ts";

const keys = { OPENAI_API_KEY: "sk-made-up", OPENAI_ADMIN_KEY: "sk-made-up", OPENAI_ORG_ID: "org-made-up" };

/** What a process that finds this in its environment asks of the world outside, by first line. */
function watchOutside() {
  const requests: string[] = [];
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket, bytes) {
        requests.push(new TextDecoder().decode(bytes).split("\r\n")[0] ?? "");
        socket.end("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
      },
    },
  });
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
  const proxies = names.map((name) => [name, `http://127.0.0.1:${server.port}`]);
  return {
    requests,
    environment: { ...keys, ...(Object.fromEntries(proxies) as Record<string, string>) },
    [Symbol.dispose]: () => server.stop(true),
  };
}

async function work(options: Record<string, unknown>, input: unknown, environment: Record<string, string>) {
  await using model = serveScriptedModel(({ messages }) =>
    messages.at(-1).role === "tool"
      ? { content: `### ${messages.at(-1).content} ###` }
      : { call: "add", arguments: '{"a":1,"b":2}' },
  );
  await using runners = await startRunnersProcess(options, environment);
  await runners.store.addResources({
    main_llm: {
      resource_type: "llm",
      endpoint: `${model.url}/v1`,
      model: "m",
      api_key: "sk-made-up",
      sampling_parameters: {},
    },
  });
  const rollout: AttemptedRollout = await runners.work(input);
  const { items: spans } = await runners.store.querySpans({ rollout_id: rollout.rollout_id });
  runners.child.kill("SIGTERM");
  await runners.child.exited;
  return { rollout, spans, stderr: runners.stderr(), calls: model.requests.length };
}

// O37
test.each(tracers)(
  "the sample agent with a made-up key sends nothing out of the box, tracer %s",
  async (tracer) => {
    using outside = watchOutside();
    const options = { agentFile: null, uvx: fakeCalculator, tracer, logLevel: "debug" };
    const done = await work(options, { input: "1+2?", target: 3 }, outside.environment);
    expect(done.rollout.status).toBe("succeeded");
    expect(done.calls).toBe(2);
    expect(done.spans.at(-1)?.attributes["agentlightning.reward.0.value"]).toBe(1);
    expect(outside.requests).toEqual([]);
    expect(done.stderr).not.toContain("401");
  },
);

test("an agent that does ask for something outside would be seen", async () => {
  using outside = watchOutside();
  const steps = ["outside"];
  await work({ agentFile: chattingAgent, tracer: "openai" }, { steps }, outside.environment);
  expect(outside.requests).toEqual(["GET http://nowhere.invalid/ HTTP/1.1"]);
});
