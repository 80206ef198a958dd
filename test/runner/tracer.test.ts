import { afterEach, describe, expect, test } from "bun:test";
import { traceAdapters } from "../../src/adapter/adapters.ts";
import { adaptTracerSpans } from "../../src/adapter/tracer-adapter.ts";
import type { Span } from "../../src/protocol/types.ts";
import type { ChatStep } from "../helpers/chatting-agent.ts";
import {
  errorReply,
  type FakeReply,
  type FakeRequest,
  type FakeScript,
  type FakeVllm,
  replyAs,
  startFakeVllm,
} from "../helpers/fake-vllm.ts";
import { fakeCalculator, rowsBy, startTracedRunners } from "../helpers/traced-runners.ts";

let vllm: FakeVllm | undefined;
afterEach(async () => vllm?.stop());

const named = (spans: Span[], name: string) => spans.filter((span) => span.name === name);
const chats = (spans: Span[]) => named(spans, "openai.chat.completion");

/** Answers each call with ids of its own. */
function model(
  change: (request: FakeRequest, reply: FakeReply) => ReturnType<FakeScript> = replyAs,
): FakeVllm {
  let calls = 0;
  return startFakeVllm((request) => {
    calls += 1;
    const reply: FakeReply = {
      id: `chatcmpl-${calls}`,
      prompt_token_ids: [1, request.text.length],
      pieces: [
        { text: "yes", token_ids: [2, calls] },
        { text: "!", token_ids: [3] },
      ],
    };
    if (!/"leave \d"/.test(request.text)) return change(request, reply);
    const answer = replyAs(request, reply);
    return { ...answer, parts: [...answer.parts.slice(0, 2), "hang"] };
  });
}

async function work(
  fixture: Awaited<ReturnType<typeof startTracedRunners>>,
  input: unknown,
  resources_id = fixture.proxied,
): Promise<Span[]> {
  const id = await fixture.runners.enqueue(input, { resources_id });
  expect(await fixture.runners.ended(id)).toMatchObject({ status: "succeeded" });
  return fixture.runners.spans(id);
}

const everyWay: ChatStep[] = ["plain", "stream", "reward", "helper", "leave", "reward", "plain"];

describe("calls that also go through the recording proxy", () => {
  test("give the same rows by either adapter, whatever way the agent calls", async () => {
    vllm = model();
    await using fixture = await startTracedRunners({ baseUrl: vllm.baseUrl, model: "models/version_0" });
    const rollouts = [
      await work(fixture, { steps: everyWay }),
      await work(fixture, { steps: ["reward", "stream", "plain", "stream"] }),
      await work(fixture, { steps: [] }),
    ];
    const rows = Object.values(traceAdapters).map((adapt) => rowsBy(adapt, rollouts));
    expect(rows[0]).toEqual(rows[1] as never);
    expect(rows[0]?.kept.length).toBe(7);
    expect(rows[0]?.dropped).toEqual({ aborted_by_client: 1 });
    expect(rows[0]?.kept.map(({ reward }) => reward).sort()).toEqual([0.02, 0.02, 0.05, 1, 1, 1, 1].sort());
  });

  test("are written by both, each with its own place", async () => {
    vllm = model();
    await using fixture = await startTracedRunners({ baseUrl: vllm.baseUrl, model: "models/version_0" });
    const spans = await work(fixture, { steps: ["plain", "stream"] });
    const [first, second] = chats(spans);
    expect(chats(spans).length).toBe(2);
    expect(named(spans, "raw_gen_ai_request").length).toBe(2);
    expect(first).toMatchObject({ parent_id: null, status: { status_code: "OK" } });
    expect(first?.trace_id).toBe(second?.trace_id as string);
    const recorded = named(spans, "raw_gen_ai_request");
    // The proxy numbers a call when it comes, the tracer when it is over.
    const order = [recorded[0], first, recorded[1], second].map((span) => span?.sequence_id);
    expect(order).toEqual(order.toSorted((one = 0, other = 0) => one - other));
    expect(first?.attributes["gen_ai.request.model"]).toBe("agent-model");
  });

  test("of the math agent, its tool calls and results included", async () => {
    vllm = model((request, reply) => {
      if (request.body["messages"].at(-1).role === "tool")
        return replyAs(request, { ...reply, message: { role: "assistant", content: "### 3 ###" } });
      const call = { id: "call-1", type: "function", function: { name: "add", arguments: '{"a":1,"b":2}' } };
      const message = { role: "assistant", content: null, tool_calls: [call] };
      return replyAs(request, { ...reply, message, finish_reason: "tool_calls" });
    });
    await using fixture = await startTracedRunners(
      { baseUrl: vllm.baseUrl, model: "models/version_0" },
      { agentFile: null, uvx: fakeCalculator },
    );
    const rollouts = [
      await work(fixture, { input: "1+2?", target: 3 }),
      await work(fixture, { input: "1+3?", target: 4 }),
    ];
    const [byProxy, byTracer] = Object.values(traceAdapters).map((adapt) => rowsBy(adapt, rollouts));
    expect(byTracer).toEqual(byProxy as never);
    expect(byProxy?.kept.map(({ reward }) => reward).toSorted()).toEqual([0, 0, 1, 1]);
    // Each tool call has its place after the call that asked for it.
    const order = rollouts[0]
      ?.filter(({ name }) => /^openai|^agl\.tool|annotation/.test(name))
      .map(({ name }) => name);
    expect(order).toEqual([
      "openai.chat.completion",
      "agl.tool_call",
      "openai.chat.completion",
      "agentlightning.annotation",
    ]);
  }, 20_000);
});

describe("calls straight to the model server", () => {
  test("are recorded with ids, and the agent sees none", async () => {
    vllm = model();
    await using fixture = await startTracedRunners({ baseUrl: vllm.baseUrl, model: "models/version_0" });
    const spans = await work(fixture, { steps: everyWay }, fixture.direct);
    const { triplets, dropped } = adaptTracerSpans(spans);
    expect(
      triplets.map(({ prompt, response, reward, metadata }) => [
        prompt.token_ids.length,
        response.token_ids,
        reward,
        metadata.exact,
      ]),
    ).toEqual([
      [2, [2, 1, 3], null, true],
      [2, [2, 2, 3], 0.02, true],
      [2, [2, 3, 3], 0.05, true],
      [2, [2, 5, 3], 1, true],
    ]);
    expect(dropped.map(({ reason }) => reason)).toEqual(["aborted_by_client"]);
    expect(vllm.requests.every(({ body }) => body["return_token_ids"] === true)).toBe(true);
  });

  test("that fail and are sent again are one failed call and one good one", async () => {
    let first = true;
    vllm = model((request, reply) => {
      if (!first) return replyAs(request, reply);
      first = false;
      return errorReply(503, "busy", { "retry-after-ms": "1" });
    });
    await using fixture = await startTracedRunners({ baseUrl: vllm.baseUrl, model: "models/version_0" });
    const spans = await work(fixture, { steps: ["plain"] }, fixture.direct);
    expect(chats(spans).map(({ status }) => [status.status_code, status.description])).toEqual([
      ["ERROR", "503: busy"],
      ["OK", null],
    ]);
    const { triplets, dropped } = adaptTracerSpans(spans);
    expect(triplets.map(({ reward }) => reward)).toEqual([1]);
    expect(dropped.map(({ reason }) => reason)).toEqual(["failed"]);
  });

  test("are not recorded by the tracer otel, which is the default", async () => {
    vllm = model();
    const upstream = { baseUrl: vllm.baseUrl, model: "models/version_0" };
    await using fixture = await startTracedRunners(upstream, { tracer: "otel" });
    const spans = await work(fixture, { steps: ["plain", "stream"] }, fixture.direct);
    expect(spans.map(({ name }) => name)).toEqual(["agentlightning.annotation"]);
    expect(vllm.requests.map(({ body }) => body["return_token_ids"])).toEqual([undefined, undefined]);
  });
});
