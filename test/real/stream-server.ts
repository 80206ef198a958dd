import { replyAs, startFakeVllm } from "../helpers/fake-vllm.ts";

/**
 * A model server for many streams, as a process of its own. Prints its address. A call with `max_tokens` gets as many
 * chunks; one whose `user` is "large" gets 50 MB.
 */
const server = startFakeVllm((request, index) => {
  const count = Number(request.body["max_tokens"] ?? 20);
  const large = request.body["user"] === "large";
  const text = large ? "x".repeat(64 * 1024) : "word ";
  return replyAs(request, {
    id: `chatcmpl-${index}`,
    prompt_token_ids: [1, 2, 3],
    pieces: Array.from({ length: large ? 800 : count }, (_, token) => ({ text, token_ids: [token] })),
  });
});
console.log(server.baseUrl);
