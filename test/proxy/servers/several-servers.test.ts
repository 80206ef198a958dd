import { afterEach, describe, expect, test } from "bun:test";
import type { LogLevel, Logger } from "../../../src/log.ts";
import type { ProxyOptions } from "../../../src/proxy/proxy.ts";
import type { FakeAnswer, FakeScript, FakeVllm } from "../../helpers/fake-vllm.ts";
import { errorReply, replyAs, startFakeVllm, streamEvents } from "../../helpers/fake-vllm.ts";
import { createMemorySink } from "../../helpers/memory-sink.ts";
import { until } from "../../helpers/processes.ts";
import { type ProxyFixture, startProxyFixture, upstreamOf } from "../../helpers/proxy-fixture.ts";

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const reply = { prompt_token_ids: [1, 2], pieces: [{ text: "ok", token_ids: [3] }] };
const fine: FakeScript = (request) => (request.path === "/health" ? { parts: [] } : replyAs(request, reply));
const rollouts = Array.from({ length: 60 }, (_, index) => `ro-${index}`);

function server(script: FakeScript = fine, port?: number): FakeVllm {
  const vllm = startFakeVllm(script, port === undefined ? {} : { port });
  stops.push(() => vllm.stop());
  return vllm;
}

/** A server that has gone from its address. */
async function goneServer(): Promise<FakeVllm> {
  const vllm = startFakeVllm(fine);
  await vllm.stop();
  return vllm;
}

function start(servers: FakeVllm[], options: Partial<ProxyOptions> = {}) {
  const lines: string[] = [];
  const write = (level: LogLevel) => (message: string, fields?: object) =>
    void lines.push(`${level} ${message} ${JSON.stringify(fields ?? {})}`);
  const log: Logger = {
    debug: write("debug"),
    info: write("info"),
    warning: write("warning"),
    error: write("error"),
  };
  const fixture = startProxyFixture(fine, { log, firstPauseMs: 20, ...options });
  stops.push(() => fixture.stop());
  fixture.proxy.setUpstreams(servers.map((vllm) => upstreamOf(vllm)));
  const warnings = () => lines.filter((line) => line.includes("a model server"));
  return { ...fixture, lines, warnings, servers };
}

const ask = (
  { post, sink }: Pick<ProxyFixture, "post" | "sink">,
  rolloutId: string,
  body: object = {},
  attemptId = "at-1",
) => {
  sink.attempts.push(...createMemorySink([{ rollout_id: rolloutId, attempt_id: attemptId }]).attempts);
  return post(body, { path: `/rollout/${rolloutId}/attempt/${attemptId}/v1/chat/completions` });
};

const calls = (vllm: FakeVllm) => vllm.requests.filter(({ path }) => path !== "/health");
const states = ({ proxy }: Pick<ProxyFixture, "proxy">) =>
  proxy.statistics().servers.map(({ state }) => state);

describe("the calls of a rollout stay with one server", () => {
  /** Which server each rollout went to. */
  async function homes(fixture: ReturnType<typeof start>, servers: FakeVllm[]): Promise<number[]> {
    const found: number[] = [];
    for (const rolloutId of rollouts) {
      const before = servers.map((vllm) => calls(vllm).length);
      await (await ask(fixture, rolloutId)).text();
      found.push(servers.findIndex((vllm, index) => calls(vllm).length > before[index]!));
    }
    return found;
  }

  test("all attempts, by path or by header; each server has some", async () => {
    const servers = [server(), server(), server()];
    const fixture = start(servers);
    const first = await homes(fixture, servers);
    expect(new Set(first)).toEqual(new Set([0, 1, 2]));
    expect(await homes(fixture, servers)).toEqual(first);
    for (const [index, rolloutId] of rollouts.slice(0, 10).entries()) {
      const before = calls(servers[first[index]!]!).length;
      await ask(fixture, rolloutId, {}, "at-2");
      const headers = { "x-rollout-id": rolloutId, "x-attempt-id": "at-2" };
      await fixture.post({}, { path: "/v1/chat/completions", headers });
      await fixture.post({ input: "Hi" }, { path: `/rollout/${rolloutId}/attempt/at-2/v1/embeddings` });
      expect(calls(servers[first[index]!]!).length).toBe(before + 3);
    }
  });

  test("a server that comes takes its share, and no rollout moves between the others", async () => {
    const servers = [server(), server(), server()];
    const fixture = start(servers.slice(0, 2));
    const before = await homes(fixture, servers);
    fixture.proxy.setUpstreams(servers.toReversed().map((vllm) => upstreamOf(vllm)));
    const after = await homes(fixture, servers);
    const moved = after.filter((home, index) => home !== before[index]);
    expect(new Set(moved)).toEqual(new Set([2]));
    expect(moved.length).toBeLessThan(rollouts.length / 2);
  });
});

describe("a server that is not there", () => {
  test("each call goes to the other at once; one log line says so, and one that it is back", async () => {
    const [gone, other] = [await goneServer(), server()];
    const fixture = start([gone, other]);
    const answers = await Promise.all(rollouts.map((rolloutId) => ask(fixture, rolloutId)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(calls(other)).toHaveLength(rollouts.length);
    expect(fixture.warnings()).toHaveLength(1);
    expect(fixture.warnings()[0]).toMatch(/left out; its calls go to others .*ECONNREFUSED/);
    const { movedToAnother, failed, servers } = fixture.proxy.statistics();
    expect(movedToAnother).toBeGreaterThan(0);
    expect(failed).toBe(0);
    expect(servers[0]).toMatchObject({ state: "out", times_out: 1, server: `127.0.0.1:${gone.port}` });
    const raw = await fixture.spans("raw_gen_ai_request");
    expect(raw).toHaveLength(rollouts.length);

    const back = server(fine, gone.port);
    await until("it is back", () => states(fixture)[0] === "in");
    expect(back.requests.map(({ method, path }) => `${method} ${path}`)).toEqual(["GET /health"]);
    await Promise.all(rollouts.map((rolloutId) => ask(fixture, rolloutId)));
    expect(calls(back).length).toBeGreaterThan(0);
    expect(fixture.warnings()).toHaveLength(2);
    expect(fixture.warnings()[1]).toContain("a model server is back");
  });

  test("the span names the checkpoint and the model of the server that answered", async () => {
    const [gone, other] = [await goneServer(), server()];
    const fixture = start([]);
    fixture.proxy.setUpstreams([
      upstreamOf(gone),
      upstreamOf(other, { model: "models/version_1", checkpoint: "version_1" }),
    ]);
    for (const rolloutId of rollouts.slice(0, 8)) await ask(fixture, rolloutId);
    for (const { attributes } of await fixture.spans("litellm_request")) {
      expect(attributes).toMatchObject({
        "agl.call.checkpoint": "version_1",
        "gen_ai.request.model": "models/version_1",
      });
    }
    expect(calls(other).map(({ body }) => body.model)).toEqual(Array(8).fill("models/version_1"));
  });

  test("with all of them gone each is asked, and the agent hears of it; so is a single one", async () => {
    for (const servers of [[await goneServer(), await goneServer()], [await goneServer()]]) {
      const fixture = start(servers);
      for (const rolloutId of rollouts.slice(0, 4)) {
        const answer = await ask(fixture, rolloutId);
        expect(answer.status).toBe(502);
        expect((await answer.json()).error.code).toBe("upstream_unreachable");
      }
      expect(fixture.proxy.statistics().failedBy).toEqual({ upstream_unreachable: 4 });
      expect(await fixture.spans("litellm_request")).toHaveLength(4);
    }
  });

  test("other routes move, too", async () => {
    const [gone, other] = [await goneServer(), server()];
    const fixture = start([gone, other], { random: () => 0 });
    const answer = await fixture.post({ input: "Hi" }, { path: "/v1/embeddings" });
    expect(answer.status).toBe(200);
    expect(calls(other).map(({ path }) => path)).toEqual(["/v1/embeddings"]);
    expect(fixture.proxy.statistics()).toMatchObject({ movedToAnother: 1, unrecorded: { embeddings: 1 } });
  });
});

describe("a server that fails", () => {
  const cases: [string, FakeAnswer, number][] = [
    ["with an error of its own", errorReply(500, "broken"), 500],
    ["by breaking the connection off", { parts: [], breakOff: true }, 502],
    ["by saying nothing", { silenceMs: "for ever", parts: [] }, 504],
  ];

  test.each(cases)(
    "%s: never asked twice, left out after five in a row, back after a trial",
    async (_, answer, status) => {
      let broken = true;
      let healthy = false;
      const sick = server((request) => {
        if (request.path === "/health") return healthy ? { parts: [] } : errorReply(503, "not yet");
        return broken ? answer : fine(request, 0);
      });
      const other = server();
      const fixture = start([sick, other], { firstByteTimeoutMs: 200, random: () => 0 });
      const statuses: number[] = [];
      const path = "/v1/chat/completions";
      for (let call = 0; call < 5; call += 1) {
        // The body may break off after the status line.
        statuses.push((await fixture.post({}, { path })).status);
      }
      expect(statuses).toEqual(Array(5).fill(status));
      expect(calls(sick)).toHaveLength(5);
      expect(calls(other)).toHaveLength(0);
      expect(states(fixture)).toEqual(["out", "in"]);
      expect((await fixture.post({}, { path })).status).toBe(200);
      expect(calls(other)).toHaveLength(1);
      expect(fixture.warnings()).toHaveLength(1);

      healthy = true;
      await until("a trial", () => states(fixture)[0] === "trial");
      healthy = false;
      // The trial fails: out again, without another line.
      expect((await fixture.post({}, { path })).status).toBe(status);
      expect(states(fixture)).toEqual(["out", "in"]);
      expect(fixture.warnings()).toHaveLength(1);

      [broken, healthy] = [false, true];
      await until("a trial", () => states(fixture)[0] === "trial");
      expect((await fixture.post({}, { path })).status).toBe(200);
      expect(states(fixture)).toEqual(["in", "in"]);
      expect(fixture.warnings()).toHaveLength(2);
      expect(fixture.proxy.statistics().movedToAnother).toBe(0);
    },
  );

  test("while one call is the trial, the others go elsewhere; an agent that leaves the trial makes room for the next", async () => {
    let [broken, silent] = [true, true];
    const sick = server((request) => {
      if (request.path === "/health") return { parts: [] };
      if (broken) return errorReply(503, "asleep");
      return silent ? { silenceMs: "for ever", parts: [] } : fine(request, 0);
    });
    const other = server();
    const fixture = start([sick, other], { random: () => 0 });
    const path = "/v1/chat/completions";
    for (let call = 0; call < 5; call += 1) await fixture.post({}, { path });
    broken = false;
    await until("a trial", () => states(fixture)[0] === "trial");
    const controller = new AbortController();
    const trial = fixture.post({}, { path, signal: controller.signal }).catch(() => "left");
    await until("the trial", () => calls(sick).length === 6);
    for (let call = 0; call < 3; call += 1) await fixture.post({}, { path });
    expect([calls(sick).length, calls(other).length]).toEqual([6, 3]);
    silent = false;
    controller.abort();
    expect(await trial).toBe("left");
    await until("the next trial", async () => {
      await fixture.post({}, { path });
      return calls(sick).length > 6;
    });
    expect(states(fixture)).toEqual(["in", "in"]);
  });

  test("what the agent did wrong, a limit of rate, and an agent that leaves are no failures", async () => {
    const strict = server((request, index) => {
      if (request.path === "/health") return { parts: [] };
      return index % 3 === 0 ? errorReply(400, "bad") : errorReply(429, "slow down", { "retry-after": "7" });
    });
    const fixture = start([strict, server()], { random: () => 0 });
    for (let call = 0; call < 12; call += 1) await fixture.post({}, { path: "/v1/chat/completions" });
    expect(calls(strict)).toHaveLength(12);
    expect(states(fixture)).toEqual(["in", "in"]);
  });

  test("a single server is never left out: what it says is what the agent hears", async () => {
    const sick = server(() => errorReply(500, "broken"));
    const fixture = start([sick]);
    for (let call = 0; call < 8; call += 1) expect((await ask(fixture, "ro-1")).status).toBe(500);
    expect(sick.requests).toHaveLength(8);
    expect(states(fixture)).toEqual(["in"]);
  });
});

test("servers change while streams are under way: each stream goes on to its end, from the server it began with", async () => {
  const long = {
    ...reply,
    pieces: Array.from({ length: 4 }, (_, id) => ({ text: `${id} `, token_ids: [id + 9] })),
  };
  const streaming: FakeScript = async (request) => {
    const [first = "", ...rest] = streamEvents(request, long);
    return {
      headers: { "content-type": "text/event-stream" },
      parts: [first, ...rest.flatMap((event) => [10, event]), "data: [DONE]\n\n"],
    };
  };
  const old = server(streaming);
  const fixture = start([old]);
  const streams = await Promise.all(rollouts.slice(0, 20).map((id) => ask(fixture, id, { stream: true })));
  fixture.proxy.setUpstreams([]);
  expect((await ask(fixture, "ro-1")).status).toBe(503);
  const next = server();
  fixture.proxy.setUpstreams([upstreamOf(next, { checkpoint: "version_1" })]);
  expect((await ask(fixture, "ro-1")).status).toBe(200);
  for (const stream of streams) {
    const text = await stream.text();
    expect(text).toContain("3 ");
    expect(text).toEndWith("data: [DONE]\n\n");
  }
  const raw = await fixture.spans("raw_gen_ai_request");
  const checkpoints = raw.map(({ attributes }) => attributes["agl.call.checkpoint"]);
  expect(checkpoints.filter((name) => name === "version_0")).toHaveLength(20);
  expect(raw.every(({ attributes }) => attributes["agl.call.token_exact"])).toBe(true);
  expect([calls(old).length, calls(next).length]).toEqual([20, 1]);
});
