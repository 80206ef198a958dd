import { afterEach, expect, test } from "bun:test";
import OpenAI, { BadRequestError } from "openai";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { parsePythonLiteral } from "../../src/protocol/python-literal.ts";
import type { FakeReply } from "../helpers/fake-vllm.ts";
import { errorReply, replyAs, streamEvents } from "../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../helpers/proxy-fixture.ts";
import { startProxyFixture } from "../helpers/proxy-fixture.ts";

/** What goes wrong elsewhere, through the proxy's door. */
let fixture: ProxyFixture;
afterEach(() => fixture.stop());

const eos = 151_645;
const reply: FakeReply = {
  prompt_token_ids: [1, 2, 3],
  pieces: [
    { text: "He", token_ids: [10] },
    { text: "llo", token_ids: [11, 12, 13, 14, 15] },
    { text: "", token_ids: [eos] },
  ],
};

// O01
test("log-probabilities of a stream are those of the plain answer, one per id", async () => {
  const entry = (token: number) => ({
    token: String(token),
    logprob: -token / 10,
    bytes: null,
    top_logprobs: [],
  });
  const ids = reply.pieces.flatMap(({ token_ids }) => token_ids);
  fixture = startProxyFixture((request) => {
    if (request.body.stream !== true) {
      const plain = JSON.parse(replyAs(request, reply).parts[0] as string);
      plain.choices[0].logprobs = { content: ids.map(entry) };
      return { parts: [JSON.stringify(plain)] };
    }
    const events = streamEvents(request, reply).map((event) => {
      const chunk = JSON.parse(event.slice("data: ".length));
      const [choice] = chunk.choices;
      if (choice?.token_ids) choice.logprobs = { content: choice.token_ids.map(entry) };
      return `data: ${JSON.stringify(chunk)}\n\n`;
    });
    return { headers: { "content-type": "text/event-stream" }, parts: [...events, "data: [DONE]\n\n"] };
  });
  await (await fixture.post({ logprobs: true })).text();
  await (await fixture.post({ logprobs: true, stream: true })).text();
  const [plain, streamed] = (await fixture.spans("raw_gen_ai_request")).map(({ attributes }) =>
    parsePythonLiteral(String(attributes["llm.hosted_vllm.choices"])),
  );
  expect(streamed).toEqual(plain as never);
  expect(JSON.stringify(plain).match(/logprob"/g)).toHaveLength(ids.length);
});

// O03
test("ids with and without the end token are kept as they came: nothing is added, nothing taken away", async () => {
  const without = { ...reply, pieces: reply.pieces.slice(0, 2) };
  let answers: FakeReply = reply;
  fixture = startProxyFixture((request, index) => replyAs(request, { ...answers, id: `chatcmpl-${index}` }));
  await (await fixture.post({})).text();
  answers = without;
  await (await fixture.post({})).text();
  const { triplets } = adaptProxySpans(await fixture.spans());
  expect(triplets.map(({ response, metadata }) => [response.token_ids, metadata.exact])).toEqual([
    [[10, 11, 12, 13, 14, 15, eos], true],
    [[10, 11, 12, 13, 14, 15], true],
  ]);
});

// O13
test("a prompt beyond the context on the fourth turn: told as it is, not repeated, and the first three count", async () => {
  const message = "This model's maximum context length is 1024 tokens. However, you requested 1100 tokens.";
  fixture = startProxyFixture((request, index) =>
    index < 3 ? replyAs(request, { ...reply, id: `chatcmpl-${index}` }) : errorReply(400, message),
  );
  const client = new OpenAI({ baseURL: fixture.baseUrl, apiKey: "none" });
  const ask = () =>
    client.chat.completions.create({ model: "agent-model", messages: [{ role: "user", content: "Hi" }] });
  for (let turn = 0; turn < 3; turn += 1) await ask();
  const error: unknown = await ask().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(BadRequestError);
  expect((error as BadRequestError).message).toContain("maximum context length is 1024");
  expect(fixture.vllm.requests).toHaveLength(4);
  const { triplets, dropped } = adaptProxySpans(await fixture.spans());
  expect(triplets.map(({ metadata }) => metadata.exact)).toEqual([true, true, true]);
  expect(dropped).toMatchObject([{ reason: "failed" }]);
  const [, , , failed] = await fixture.spans("litellm_request");
  expect(failed?.attributes["error.message"]).toContain("maximum context length");
});
