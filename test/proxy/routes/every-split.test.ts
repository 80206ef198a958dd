import { afterEach, describe, expect, test } from "bun:test";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import { sourceOf } from "../../../src/chat/byte-source.ts";
import { relayStream } from "../../../src/chat/relay-stream.ts";
import { readModelRequest } from "../../../src/chat/model-request.ts";
import { recordedRoutes } from "../../../src/proxy/routes/recorded-routes.ts";
import type { FakeReply, FakeRequest } from "../../helpers/fake-vllm.ts";
import { replyAs } from "../../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../../helpers/proxy-fixture.ts";
import { startProxyFixture } from "../../helpers/proxy-fixture.ts";

/** A stream cut at any byte gives the agent and the record what the uncut one gives. */
const reply: FakeReply = {
  prompt_token_ids: [1, 2, 3],
  pieces: [
    { text: "漢😀", token_ids: [10, 11] },
    { delta: {}, token_ids: [12] },
    {
      delta: {
        tool_calls: [{ index: 0, id: "c1", type: "function", function: { name: "add", arguments: '{"a":' } }],
      },
      token_ids: [13],
    },
    { delta: { tool_calls: [{ index: 0, function: { arguments: '"é"}' } }] }, token_ids: [14] },
    { delta: {}, token_ids: [2] },
  ],
};
const response = (tokens: boolean) => ({
  id: "resp_1",
  model: "models/version_0",
  output: [{ type: "message", content: [{ type: "output_text", text: "漢😀" }] }],
  status: "completed",
  usage: { input_tokens: 1, output_tokens: 2 },
  input_messages: tokens ? [{ message: "é", tokens: [1] }] : null,
  output_messages: tokens ? [{ message: "漢😀", tokens: [10, 2] }] : null,
});
const responseEvents = [
  { type: "response.created", response: response(false) },
  { type: "response.output_text.delta", delta: "漢😀" },
  { type: "response.completed", response: response(true) },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
const messageEvents = [
  { type: "message_start", message: { id: "m", model: "models/version_0", usage: { input_tokens: 1 } } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "漢😀" } },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
  { type: "message_stop" },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);

const messages = [{ role: "user", content: "Hi" }];
const untranslatable = { max_tokens: 9, messages, thinking: { type: "disabled" } };
const translatable = { max_tokens: 9, messages };
const upstream = {
  modelName: "agent-model",
  model: "models/version_0",
  baseUrl: "http://127.0.0.1:1/v1",
  checkpoint: "version_0",
  provider: "hosted_vllm" as const,
};

/** The events that the server sends to a recorded call of the route, as one text. */
function sentFor(path: string, body: object): string {
  if (path === "responses") return responseEvents.join("");
  if (body === untranslatable) return messageEvents.join("");
  const asked = { stream: true, return_token_ids: true, stream_options: { include_usage: true } };
  const request = { path: `/v1/${path}`, body: { model: "models/version_0", ...asked } };
  if (path === "messages") request.path = "/v1/chat/completions";
  return (replyAs(request as unknown as FakeRequest, reply).parts as string[]).join("");
}

async function relayed(path: keyof typeof recordedRoutes, body: object, pieces: Uint8Array[]) {
  const read = readModelRequest(JSON.stringify({ model: "agent-model", stream: true, ...body }));
  if (!read.ok) throw new Error(read.message);
  const route = recordedRoutes[path](read.request, upstream, true);
  // Signatures of thinking are made up; nothing else is.
  const reader = route.reader(read.request, { recorded: true, fingerprint: { value: "f" } });
  const source = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  const shown = await new Response(relayStream(sourceOf(source), { reader, onEnd: () => {} })).text();
  return { shown, answer: reader.answer(), text: reader.answerText(), done: reader.done };
}

describe.each([
  ["chat/completions", { messages }],
  ["completions", { prompt: "Hi" }],
  ["messages", translatable],
  ["messages", untranslatable],
  ["responses", { input: "Hi" }],
] as const)("%s %j", (path, body) => {
  test.each(["\n", "\r\n"])("cut at every byte, lines ending in %j", async (eol) => {
    const bytes = new TextEncoder().encode(sentFor(path, body).replaceAll("\n", eol));
    const whole = await relayed(path, body, [bytes]);
    expect(whole.shown).toContain("漢😀");
    expect(whole.answer).not.toBeNull();
    for (let at = 1; at < bytes.length; at += 1) {
      expect(await relayed(path, body, [bytes.slice(0, at), bytes.slice(at)])).toEqual(whole);
    }
    const alone = [...bytes].map((byte) => Uint8Array.of(byte));
    expect(await relayed(path, body, alone)).toEqual(whole);
  });
});

// O08
describe("through the proxy's own door", () => {
  let fixture: ProxyFixture;
  afterEach(() => fixture.stop());

  test("each byte alone, CRLF, and a last event without its blank line", async () => {
    const sent = sentFor("chat/completions", {})
      .replaceAll("\n", "\r\n")
      .replace(/(\r\n){2}$/, "");
    const bytes = new TextEncoder().encode(sent);
    let cut = false;
    fixture = startProxyFixture(() => ({
      headers: { "content-type": "text/event-stream" },
      parts: cut ? [...bytes].map((byte) => Uint8Array.of(byte)) : [bytes],
    }));
    const whole = await (await fixture.post({ stream: true })).text();
    cut = true;
    expect(await (await fixture.post({ stream: true })).text()).toBe(whole);
    const { triplets } = adaptProxySpans(await fixture.spans());
    expect(triplets.map((triplet) => triplet.response.token_ids)).toEqual([[10, 11, 12, 13, 14, 2]]);
    const texts = (await fixture.spans("litellm_request")).map(
      ({ attributes }) => attributes["gen_ai.completion.0.content"],
    );
    expect(texts).toEqual(["漢😀", "漢😀"]);
  });
});
