/** A model server that plays a script, down to the cuts between two writes. */

export interface FakeRequest {
  method: string;
  path: string;
  headers: Headers;
  text: string;
  body: { [key: string]: any };
  /** Resolves when the connection of this request is closed before its answer was complete. */
  aborted: Promise<void>;
  wasAborted: boolean;
}

/** A text or bytes are written at once; a number is a pause in milliseconds; "hang" waits until the client leaves. */
export type FakePart = string | Uint8Array | number | "hang";

export interface FakeAnswer {
  status?: number;
  headers?: { [name: string]: string };
  /** Before the first byte, status line included. */
  silenceMs?: number | "for ever";
  parts: FakePart[];
  /** Breaks the connection instead of ending the answer. */
  breakOff?: boolean;
}

export type FakeScript = (request: FakeRequest, index: number) => FakeAnswer | Promise<FakeAnswer>;

export interface FakeVllm {
  baseUrl: string;
  port: number;
  requests: FakeRequest[];
  stop(): Promise<void>;
}

export function startFakeVllm(script: FakeScript, options: { unix?: string; port?: number } = {}): FakeVllm {
  const requests: FakeRequest[] = [];
  const serve = async (raw: Request): Promise<Response> => {
    const request = await readRequest(raw);
    requests.push(request);
    const answer = await script(request, requests.length - 1);
    if (answer.silenceMs !== undefined) await silence(raw.signal, answer.silenceMs);
    return new Response(writeParts(answer, raw.signal), {
      status: answer.status ?? 200,
      headers: { "content-type": "application/json", ...answer.headers },
    });
  };
  const base = {
    idleTimeout: 0,
    development: false as const,
    fetch: serve,
    error: () => new Response("broken script", { status: 599 }),
  };
  const server =
    options.unix === undefined
      ? Bun.serve({ ...base, hostname: "127.0.0.1", port: options.port ?? 0 })
      : Bun.serve({ fetch: base.fetch, error: base.error, development: false, unix: options.unix });
  const host = options.unix === undefined ? `127.0.0.1:${server.port}` : "localhost";
  const port = server.port ?? 0;
  return { baseUrl: `http://${host}/v1`, port, requests, stop: () => server.stop(true) };
}

async function readRequest(raw: Request): Promise<FakeRequest> {
  const text = await raw.text();
  const request: FakeRequest = {
    method: raw.method,
    path: new URL(raw.url).pathname,
    headers: raw.headers,
    text,
    body: text.startsWith("{") ? JSON.parse(text) : {},
    aborted: new Promise((resolve) => {
      raw.signal.addEventListener("abort", () => {
        request.wasAborted = true;
        resolve();
      });
    }),
    wasAborted: false,
  };
  return request;
}

function silence(signal: AbortSignal, duration: number | "for ever"): Promise<void> {
  return new Promise((resolve) => {
    if (duration !== "for ever") setTimeout(resolve, duration);
    signal.addEventListener("abort", () => resolve());
  });
}

function writeParts(answer: FakeAnswer, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let next = 0;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const part = answer.parts[next++];
        if (part === undefined) {
          if (answer.breakOff !== true) controller.close();
          else {
            // A connection that is reset takes along what its reader has not read yet.
            await Bun.sleep(20);
            controller.error(new Error("broken off on purpose"));
          }
          return;
        }
        if (typeof part === "number" || part === "hang") {
          await silence(signal, part === "hang" ? "for ever" : part);
          if (signal.aborted) return;
          continue;
        }
        controller.enqueue(typeof part === "string" ? encoder.encode(part) : part);
        // Lets the write reach the socket before the next one.
        await new Promise((resolve) => setImmediate(resolve));
        return;
      }
    },
  });
}

/** What the model says: pieces of text or of a tool call with the tokens behind them. */
export interface FakePiece {
  text?: string;
  /** Any delta; an empty one is a token that the tool parser keeps back. */
  delta?: object;
  token_ids: number[];
}

const fingerprint = "vllm-0.26.0-6e1d2c3b";

export interface FakeReply {
  id?: string;
  prompt_token_ids: number[];
  pieces: FakePiece[];
  message?: object;
  finish_reason?: string;
  usage?: { prompt_tokens: number; completion_tokens: number };
}

/** The reply as vLLM sends it for this request: plain or streamed, ids, usage and fingerprint where vLLM puts them. */
export function replyAs(request: FakeRequest, reply: FakeReply): FakeAnswer {
  const textual = request.path.endsWith("/completions") && !request.path.endsWith("/chat/completions");
  if (request.body.stream !== true) {
    const answer = textual ? plainText(request, reply) : plainReply(request, reply);
    return { parts: [JSON.stringify(answer)] };
  }
  return {
    headers: { "content-type": "text/event-stream; charset=utf-8" },
    parts: [...(textual ? textEvents : streamEvents)(request, reply), "data: [DONE]\n\n"],
  };
}

function textEnvelope(request: FakeRequest, reply: FakeReply) {
  const { model } = request.body;
  return { id: reply.id ?? "cmpl-1", object: "text_completion", created: 1767000000, model };
}

function textChoice(
  request: FakeRequest,
  reply: FakeReply,
  pieces: FakePiece[],
  first: boolean,
  last: boolean,
) {
  const withIds = request.body.return_token_ids === true;
  const tokens = pieces.flatMap(({ token_ids }) => token_ids);
  return {
    index: 0,
    text: pieces.map(({ text = "" }) => text).join(""),
    logprobs:
      request.body.logprobs === 1
        ? { tokens: tokens.map(String), token_logprobs: tokens.map(() => -1) }
        : null,
    finish_reason: last ? (reply.finish_reason ?? "stop") : null,
    stop_reason: null,
    prompt_token_ids: withIds && first ? reply.prompt_token_ids : null,
    token_ids: withIds ? tokens : null,
  };
}

function plainText(request: FakeRequest, reply: FakeReply): object {
  return {
    ...textEnvelope(request, reply),
    choices: [textChoice(request, reply, reply.pieces, true, true)],
    system_fingerprint: fingerprint,
    usage: usageOf(reply),
  };
}

function textEvents(request: FakeRequest, reply: FakeReply): string[] {
  const withUsage = request.body.stream_options?.include_usage === true;
  const chunks: object[] = reply.pieces.map((piece, index) => {
    const last = index === reply.pieces.length - 1;
    return {
      ...textEnvelope(request, reply),
      choices: [textChoice(request, reply, [piece], index === 0, last)],
      ...(last && !withUsage ? { system_fingerprint: fingerprint } : {}),
    };
  });
  if (withUsage) {
    chunks.push({
      ...textEnvelope(request, reply),
      choices: [],
      usage: usageOf(reply),
      system_fingerprint: fingerprint,
    });
  }
  return chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
}

function usageOf(reply: FakeReply) {
  const completion = reply.pieces.reduce((sum, { token_ids }) => sum + token_ids.length, 0);
  const usage = reply.usage ?? {
    prompt_tokens: reply.prompt_token_ids.length,
    completion_tokens: completion,
  };
  return { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens };
}

function plainReply(request: FakeRequest, reply: FakeReply): object {
  const withIds = request.body.return_token_ids === true;
  return {
    id: reply.id ?? "chatcmpl-1",
    object: "chat.completion",
    created: 1767000000,
    model: request.body.model,
    choices: [
      {
        index: 0,
        message: reply.message ?? {
          role: "assistant",
          content: reply.pieces.map(({ text = "" }) => text).join(""),
        },
        logprobs: null,
        finish_reason: reply.finish_reason ?? "stop",
        stop_reason: null,
        token_ids: withIds ? reply.pieces.flatMap(({ token_ids }) => token_ids) : null,
      },
    ],
    system_fingerprint: fingerprint,
    usage: usageOf(reply),
    prompt_token_ids: withIds ? reply.prompt_token_ids : null,
  };
}

/** One text per event, without `[DONE]`. */
export function streamEvents(request: FakeRequest, reply: FakeReply): string[] {
  const withIds = request.body.return_token_ids === true;
  const envelope = {
    id: reply.id ?? "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1767000000,
    model: request.body.model,
  };
  const choice = (delta: object, finish_reason: string | null, token_ids?: number[]) => ({
    index: 0,
    delta,
    logprobs: null,
    finish_reason,
    ...(token_ids === undefined ? {} : { token_ids: withIds ? token_ids : null }),
  });
  const first = {
    ...envelope,
    choices: [choice({ role: "assistant", content: "" }, null)],
    prompt_token_ids: withIds ? reply.prompt_token_ids : null,
  };
  const withUsage = request.body.stream_options?.include_usage === true;
  const chunks: object[] = [first];
  reply.pieces.forEach((piece, index) => {
    const delta = piece.delta ?? { content: piece.text ?? "" };
    const last = index === reply.pieces.length - 1;
    if (Object.keys(delta).length === 0 && !last && !withIds) return;
    const finish = last ? (reply.finish_reason ?? "stop") : null;
    chunks.push({
      ...envelope,
      choices: [choice(delta, finish, piece.token_ids)],
      ...(last && !withUsage ? { system_fingerprint: fingerprint } : {}),
    });
  });
  if (withUsage) {
    chunks.push({ ...envelope, choices: [], usage: usageOf(reply), system_fingerprint: fingerprint });
  }
  return chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
}

export function errorReply(
  status: number,
  message: string,
  headers: { [name: string]: string } = {},
): FakeAnswer {
  const error = { message, type: "BadRequestError", param: null, code: status };
  return { status, headers, parts: [JSON.stringify({ error })] };
}
