type Reply =
  { content: string } | { expression: string } | { call: string; arguments: string } | { status: number };

export interface ScriptedModel extends AsyncDisposable {
  url: string;
  /** Bodies of the chat requests, in order, with the path they came to. */
  requests: { path: string; body: any }[];
  flushes: string[];
}

/**
 * An OpenAI-compatible server that answers with what the script says to the messages so far. It answers as vLLM
 * does: no content beside tool calls, and arguments as text.
 */
export function serveScriptedModel(script: (body: any) => Reply): ScriptedModel {
  const requests: ScriptedModel["requests"] = [];
  const flushes: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const path = new URL(request.url).pathname;
      if (path.endsWith("/flush")) {
        flushes.push(path);
        return new Response(null, { status: 204 });
      }
      const body = (await request.json()) as any;
      requests.push({ path, body });
      const reply = script(body);
      if ("status" in reply) return Response.json({ error: { message: "no" } }, { status: reply.status });
      return Response.json(completion(body, reply));
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    requests,
    flushes,
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}

function completion(body: any, reply: Exclude<Reply, { status: number }>): object {
  const call =
    "content" in reply
      ? undefined
      : "call" in reply
        ? { name: reply.call, arguments: reply.arguments }
        : { name: "calculate", arguments: JSON.stringify({ expression: reply.expression }) };
  const toolCalls = call === undefined ? [] : [{ id: "call-1", type: "function", function: call }];
  return {
    id: `chatcmpl-${crypto.randomUUID()}`,
    object: "chat.completion",
    created: 1,
    model: body.model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: "content" in reply ? reply.content : null,
          tool_calls: toolCalls,
        },
        finish_reason: call === undefined ? "stop" : "tool_calls",
      },
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  };
}
