import { afterEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import type { Span } from "../../../src/protocol/types.ts";
import { errorReply, type FakeScript, replyAs } from "../../helpers/fake-vllm.ts";
import { type ProxyFixture, startProxyFixture } from "../../helpers/proxy-fixture.ts";

let fixture: ProxyFixture;
afterEach(() => fixture.stop());

/** Answers 500 as often as it says, then answers. */
function failing(times: number): FakeScript {
  return (request, index) =>
    index < times
      ? errorReply(500, "broken", { "retry-after-ms": "1" })
      : replyAs(request, {
          id: `chatcmpl-${index}`,
          prompt_token_ids: [1],
          pieces: [{ text: "ok", token_ids: [2] }],
        });
}

const retries = (spans: Span[]) =>
  spans
    .filter(({ name }) => name === "litellm_request")
    .map(({ attributes, status }) => [status.status_code, attributes["agl.call.retry"] ?? 0]);

test("500, 500, 200 through a client library that tries again: three calls, two of them errors, one row", async () => {
  fixture = startProxyFixture(failing(2));
  const client = new OpenAI({ baseURL: fixture.baseUrl, apiKey: "any", maxRetries: 2 });
  const answer = await client.chat.completions.create({ model: "agent-model", messages: [] });
  expect(answer.choices[0]?.message.content).toBe("ok");
  const spans = await fixture.spans();
  expect(retries(spans)).toEqual([
    ["ERROR", 0],
    ["ERROR", 1],
    ["OK", 2],
  ]);
  const { triplets, dropped } = adaptProxySpans(spans);
  expect(triplets.map(({ response }) => response.token_ids)).toEqual([[2]]);
  expect(dropped.map(({ reason }) => reason)).toEqual(["failed", "failed"]);
  expect(fixture.proxy.statistics()).toMatchObject({ calls: 3, failed: 2, repeated: 2 });
});

describe("a client that does not number its tries", () => {
  test("is recognised by the same request after a failure, and an answer ends the row of tries", async () => {
    fixture = startProxyFixture(failing(2));
    for (let call = 0; call < 4; call += 1) await (await fixture.post({})).text();
    expect(retries(await fixture.spans())).toEqual([
      ["ERROR", 0],
      ["ERROR", 1],
      ["OK", 2],
      ["OK", 0],
    ]);
    expect(fixture.proxy.statistics().repeated).toBe(2);
  });

  test("is recognised after it left in the middle", async () => {
    fixture = startProxyFixture((request, index) =>
      index === 0 ? { parts: ["hang"] } : failing(0)(request, index),
    );
    const leaving = new AbortController();
    const first = fixture.post({}, { signal: leaving.signal }).catch(() => {});
    while (fixture.vllm.requests.length === 0) await Bun.sleep(1);
    leaving.abort();
    await first;
    await fixture.proxy.flush(5_000);
    await (await fixture.post({})).text();
    expect(retries(await fixture.spans()).map(([, retry]) => retry)).toEqual([0, 1]);
  });

  test("another request, or the same one of another attempt, is no repetition", async () => {
    fixture = startProxyFixture(failing(9));
    fixture.sink.attempts.push({ ...fixture.sink.attempts[0]!, rollout_id: "ro-2" });
    await fixture.post({});
    await fixture.post({ seed: 1 });
    await fixture.post({}, { path: "/rollout/ro-2/attempt/at-1/v1/chat/completions" });
    expect(retries(await fixture.spans()).map(([, retry]) => retry)).toEqual([0, 0, 0]);
  });
});

test("a count that is no number is not believed", async () => {
  fixture = startProxyFixture(failing(0));
  await fixture.post({}, { headers: { "x-stainless-retry-count": "many" } });
  expect(fixture.proxy.statistics()).toMatchObject({ calls: 1, repeated: 0 });
});
