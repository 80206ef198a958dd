import { replyAs, startFakeVllm } from "../helpers/fake-vllm.ts";

/**
 * A model server for many streams, as a process of its own. Prints its address. A call with `max_tokens` gets as many
 * chunks; one whose `user` is "large" gets 50 MB, one whose `user` is "slow" waits longer than servers like to.
 */
const server = startFakeVllm((request, index) => {
  const count = Number(request.body["max_tokens"] ?? 20);
  const large = request.body["user"] === "large";
  const text = large ? "x".repeat(64 * 1024) : "word ";
  const answer = replyAs(request, {
    id: `chatcmpl-${index}`,
    prompt_token_ids: [1, 2, 3],
    pieces: Array.from({ length: large ? 800 : count }, (_, token) => ({ text, token_ids: [token] })),
  });
  if (request.body["user"] !== "slow") return answer;
  const [first, ...rest] = answer.parts;
  return { ...answer, silenceMs: 12_000, parts: [first!, 15_000, ...rest] };
});
console.log(server.baseUrl);
