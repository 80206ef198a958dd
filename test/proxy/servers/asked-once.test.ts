import { afterEach, expect, test } from "bun:test";
import { startFakeVllm } from "../../helpers/fake-vllm.ts";
import { createMemorySink } from "../../helpers/memory-sink.ts";
import { startProxyFixture, upstreamOf } from "../../helpers/proxy-fixture.ts";
import { startScriptedServer } from "../../helpers/scripted-server.ts";

const rollouts = Array.from({ length: 60 }, (_, index) => `ro-${index}`);
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

test("a server that dies with a call over a used connection was asked once, and no other is", async () => {
  const answer = JSON.stringify({ id: "1", choices: [] });
  const dying = startScriptedServer((socket, index) => {
    if (index > 0) socket.reset();
    else socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`);
  });
  const other = startFakeVllm(() => ({ parts: [answer] }));
  const baseUrl = `http://127.0.0.1:${dying.port}/v1`;
  const fixture = startProxyFixture(() => ({ parts: [answer] }), {
    upstreams: [upstreamOf(other, { baseUrl }), upstreamOf(other)],
    holdMs: 1_000,
  });
  stops.push(fixture.stop, other.stop, dying.stop);
  const call = (rollout: number) =>
    fixture.post({}, { path: `/rollout/ro-${rollout}/attempt/at-1/v1/chat/completions` });

  // One of the rollouts has its place there.
  fixture.sink.attempts = createMemorySink(
    rollouts.map((id) => ({ rollout_id: id, attempt_id: "at-1" })),
  ).attempts;
  let rollout = 0;
  while (dying.requests.length === 0) expect((await call((rollout += 1))).status).toBe(200);
  const before = other.requests.length;
  const answered = await call(rollout);

  expect(answered.status).toBe(502);
  expect(await answered.text()).toContain("closed before the answer was complete");
  expect(dying.requests).toHaveLength(1);
  expect(dying.requests[0]).toHaveLength(2);
  expect(other.requests).toHaveLength(before);
});
