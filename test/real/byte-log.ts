import { readFileSync } from "node:fs";

/** One call as it went over the wire: ids picked out of the raw bytes, by code that shares nothing with the proxy. */
export interface WireCall {
  streamed: boolean;
  prompt: number[];
  response: number[];
}

interface Message {
  head: string;
  body: Buffer;
}

/** All chat completions in a log written by socket-tap.ts. */
export function wireCalls(logFile: string): WireCall[] {
  const byConnection = new Map<number, { in: Buffer[]; out: Buffer[] }>();
  for (const line of readFileSync(logFile, "utf8").split("\n").filter(Boolean)) {
    const { connection, direction, bytes } = JSON.parse(line) as {
      connection: number;
      direction: "in" | "out";
      bytes: string;
    };
    const found = byConnection.get(connection) ?? { in: [], out: [] };
    byConnection.set(connection, found);
    found[direction].push(Buffer.from(bytes, "base64"));
  }
  return [...byConnection.values()].flatMap((traffic) => {
    const requests = messagesIn(Buffer.concat(traffic.in));
    const answers = messagesIn(Buffer.concat(traffic.out));
    return answers.flatMap((answer, index) => {
      const request = requests[index];
      return request?.head.includes("/chat/completions") ? [callFrom(answer)] : [];
    });
  });
}

function callFrom(answer: Message): WireCall {
  const text = answer.body.toString("utf8");
  if (!/content-type: text\/event-stream/i.test(answer.head)) {
    const body = JSON.parse(text) as { prompt_token_ids: number[]; choices: { token_ids: number[] }[] };
    return { streamed: false, prompt: body.prompt_token_ids, response: body.choices[0]?.token_ids ?? [] };
  }
  const call: WireCall = { streamed: true, prompt: [], response: [] };
  for (const line of text.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    const chunk = JSON.parse(line.slice(6)) as {
      prompt_token_ids?: number[] | null;
      choices: { token_ids?: number[] | null }[];
    };
    if (chunk.prompt_token_ids) call.prompt = chunk.prompt_token_ids;
    call.response.push(...(chunk.choices[0]?.token_ids ?? []));
  }
  return call;
}

/** Splits one direction of a connection into HTTP/1.1 messages. */
function messagesIn(bytes: Buffer): Message[] {
  const messages: Message[] = [];
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf("\r\n\r\n", at);
    if (end < 0) break;
    const head = bytes.subarray(at, end).toString("latin1");
    const start = end + 4;
    const length = /content-length: (\d+)/i.exec(head)?.[1];
    if (/transfer-encoding: chunked/i.test(head)) {
      const chunked = readChunks(bytes, start);
      messages.push({ head, body: chunked.body });
      at = chunked.next;
    } else {
      at = start + Number(length ?? 0);
      messages.push({ head, body: bytes.subarray(start, at) });
    }
  }
  return messages;
}

function readChunks(bytes: Buffer, start: number): { body: Buffer; next: number } {
  const parts: Buffer[] = [];
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return { body: Buffer.concat(parts), next: bytes.length };
    const size = Number.parseInt(bytes.subarray(at, lineEnd).toString("latin1"), 16);
    if (size === 0) return { body: Buffer.concat(parts), next: lineEnd + 4 };
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}
