import { type FakePart, type FakeReply, type FakeRequest, replyAs } from "../../test/helpers/fake-vllm.ts";

/**
 * A model server that costs next to nothing, as a process of its own: answers in vLLM's shape, 2 KB plain or 32 events
 * of one token each. The `user` asks for more: "paced" streams pause after each event, and "hanging" ones send four
 * events and nothing more; `/left` says when the agents of those went away.
 */
const promptTokens = 480;
const answerTokens = 320;
const streamTokens = 32;
const pauseMs = 1;

const tokenIds = (count: number) => Array.from({ length: count }, (_, index) => (index * 7919) % 50_000);
const idMark = "chatcmpl-0123456789abcdef";
const made = new Map<string, FakePart[]>();
const leftAt = new Map<string, number>();
let calls = 0;

/** The parts of an answer are made once for each way to ask. */
function partsOf(request: FakeRequest): FakePart[] {
  const { model, stream, stream_options, return_token_ids, tools } = request.body;
  const key = JSON.stringify([model, stream, stream_options, return_token_ids, tools !== undefined]);
  let parts = made.get(key);
  if (parts === undefined) made.set(key, (parts = replyAs(request, replyFor(request)).parts));
  return parts;
}

function replyFor({ body }: FakeRequest): FakeReply {
  const tokens = tokenIds(body.stream === true ? streamTokens : answerTokens);
  const pieces = tokens.map((id, index) => ({ text: ` w${index % 100}`, token_ids: [id] }));
  const reply = { id: idMark, prompt_token_ids: tokenIds(promptTokens), pieces };
  if (body.tools === undefined) return reply;
  const call = { index: 0, id: "call-1", type: "function", function: { name: "look_up", arguments: "{}" } };
  const tool_calls = [call];
  return {
    ...reply,
    message: { role: "assistant", content: null, tool_calls },
    // Tokens that a tool parser keeps back come as empty deltas.
    pieces: pieces.map((piece, index) => ({ ...piece, delta: index === 20 ? { tool_calls } : {} })),
    finish_reason: "tool_calls",
  };
}

async function answer(request: Request): Promise<Response> {
  const body = (await request.json()) as FakeRequest["body"];
  calls += 1;
  const asked = { body, path: new URL(request.url).pathname } as FakeRequest;
  const id = `chatcmpl-${String(body["seed"] ?? calls).padStart(16, "0")}`;
  const parts = partsOf(asked).map((part) => String(part).replace(idMark, id));
  if (body["stream"] !== true) {
    return new Response(parts[0], { headers: { "content-type": "application/json" } });
  }
  return new Response(streamOf(body, parts, request.signal), {
    headers: { "content-type": "text/event-stream; charset=utf-8" },
  });
}

interface DirectController {
  write(text: string): void;
  flush(): void;
  close(): void;
}

/** Every event is a write of its own, as tokens are. */
function streamOf(body: FakeRequest["body"], parts: string[], client: AbortSignal): ReadableStream {
  const hangs = body["user"] === "hanging";
  const pause = body["user"] === "paced" ? () => Bun.sleep(pauseMs) : nextTick;
  return new ReadableStream({
    type: "direct",
    async pull(controller: DirectController) {
      for (const part of hangs ? parts.slice(0, 4) : parts) {
        controller.write(part);
        controller.flush();
        await pause();
      }
      if (hangs) await left(client, String(body["seed"]));
      controller.close();
    },
  } as unknown as UnderlyingDefaultSource);
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function left(client: AbortSignal, name: string): Promise<void> {
  if (!client.aborted) {
    await new Promise<void>((resolve) => client.addEventListener("abort", () => resolve(), { once: true }));
  }
  leftAt.set(name, performance.timeOrigin + performance.now());
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  development: false,
  reusePort: false,
  routes: {
    "/v1/chat/completions": { POST: answer },
    "/v1/models": () => Response.json({ object: "list", data: [{ id: "agent-model", object: "model" }] }),
    "/health": () => new Response(),
    "/calls": () => Response.json(calls),
    "/left/:name": (request) => Response.json(leftAt.get(request.params.name) ?? null),
  },
});
console.log(`listening: ${server.url}`);
