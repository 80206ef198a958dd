import { directFetch } from "../../src/client/loopback-fetch.ts";
import { quantile } from "./statistics.ts";

/** How one side is called. */
export interface CallTarget {
  /** Base URLs; each connection keeps to one of them. */
  baseUrls: string[];
  headers: { [name: string]: string };
  model: string;
}

export interface ModelCallsJob {
  target: CallTarget;
  connections: number;
  seconds: number;
  streamed: boolean;
  /** Streams whose server pauses between events, as models do. */
  paced?: boolean;
  /** The calls end with the server that takes them, and that is no error. */
  untilBroken?: boolean;
}

export interface ModelCallsResult {
  /** Complete ones, by base URL. */
  completed: { [baseUrl: string]: number };
  calls: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
  /** Until the first bytes of the body; of streams. */
  firstP50Ms: number;
}

/** Every connection makes the next call as soon as it has the answer of the last one, for so many seconds. */
export async function modelCalls(job: ModelCallsJob): Promise<ModelCallsResult> {
  const { target, connections, seconds, streamed, paced = false, untilBroken = false } = job;
  const request = modelRequest(target, { stream: streamed, ...(paced ? { user: "paced" } : {}) });
  const read = streamed ? readStream : readWhole;
  const completed: { [baseUrl: string]: number } = {};
  const wholeMs: number[] = [];
  const firstMs: number[] = [];
  const started = performance.now();
  const end = started + seconds * 1000;
  const loop = async (baseUrl: string) => {
    const url = `${baseUrl}/chat/completions`;
    for (let sent = performance.now(); sent < end; sent = performance.now()) {
      const response = await directFetch(url, request);
      if (!response.ok)
        throw new Error(`${url}: ${response.status} ${(await response.text()).slice(0, 300)}`);
      const first = await read(response);
      const now = performance.now();
      wholeMs.push(now - sent);
      firstMs.push(first - sent);
      completed[baseUrl] = (completed[baseUrl] ?? 0) + 1;
    }
  };
  await Promise.all(
    Array.from({ length: connections }, (_, index) => {
      const running = loop(target.baseUrls[index % target.baseUrls.length] as string);
      return untilBroken ? running.catch(() => {}) : running;
    }),
  );
  return {
    completed,
    calls: wholeMs.length,
    seconds: (performance.now() - started) / 1000,
    p50Ms: quantile(wholeMs, 0.5),
    p99Ms: quantile(wholeMs, 0.99),
    firstP50Ms: quantile(firstMs, 0.5),
  };
}

/** A request of 2 KB, as an agent's HTTP library sends it. */
export function modelRequest({ headers, model }: CallTarget, more: object): RequestInit & { body: string } {
  const messages = [
    { role: "system", content: "You answer with the number that was asked for, and with nothing else." },
    { role: "user", content: "What is the sum of all numbers in this line? 17, 4, 23, 8, 42. ".repeat(28) },
  ];
  return {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model, messages, temperature: 0, max_tokens: 400, ...more }),
  };
}

/** Returns when its first bytes were here. */
async function readWhole(response: Response): Promise<number> {
  const { byteLength } = await response.arrayBuffer();
  if (byteLength < 1_000) throw new Error(`an answer of ${byteLength} bytes`);
  return performance.now();
}

const decoder = new TextDecoder();

async function readStream(response: Response): Promise<number> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let first = 0;
  let last: Uint8Array = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (first === 0) first = performance.now();
    if (value.length > 0) last = value;
  }
  const end = decoder.decode(last.subarray(-20));
  if (!end.endsWith("data: [DONE]\n\n")) throw new Error(`a stream that ends with ${JSON.stringify(end)}`);
  return first;
}
