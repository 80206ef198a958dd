import { directFetch } from "../../src/client/loopback-fetch.ts";
import { type CallTarget, modelRequest } from "./model-calls.ts";
import { median } from "./statistics.ts";

export interface Ways {
  direct: CallTarget;
  proxied: CallTarget;
}

const tool = { type: "function", function: { name: "look_up", parameters: { type: "object" } } };
const parts: object[][] = [
  [{ stream: true }, { stream: false }],
  [{}, { tools: [tool] }],
  [{}, { return_token_ids: true }],
  [{}, { stream_options: { include_usage: true } }],
];

/** Every way to ask: `include_usage` belongs to streams only. */
const asked = parts
  .reduce<object[]>((all, some) => all.flatMap((one) => some.map((other) => ({ ...one, ...other }))), [{}])
  .filter((one) => !("stream_options" in one && "stream" in one && one.stream === false));

/** Asks the same both ways; returns how often the answers differed, and where first. */
export async function compareAnswers({ direct, proxied, calls }: Ways & { calls: number }) {
  const differences: string[] = [];
  for (let call = 0; call < calls; call += 1) {
    const more = { ...asked[call % asked.length], seed: call };
    const [one, other] = [await answerOf(direct, more), await answerOf(proxied, more)];
    if (one !== other) differences.push(`${JSON.stringify(more)}\n${one}\n${other}`);
  }
  return { calls, differences: differences.length, first: differences[0] };
}

async function answerOf(target: CallTarget, more: object): Promise<string> {
  const response = await directFetch(`${target.baseUrls[0]}/chat/completions`, modelRequest(target, more));
  return `${response.status} ${response.headers.get("content-type")}\n${await response.text()}`;
}

export type LeaveTimes = {
  /** Milliseconds from leaving to the model server's knowing. */
  direct: number;
  proxied: number;
  roundTrip: number;
};

/** Leaves streams in the middle, by both ways in turn. */
export async function leaveStreams({
  direct,
  proxied,
  pairs,
}: Ways & { pairs: number }): Promise<LeaveTimes> {
  const [directMs, proxiedMs, roundTripMs]: number[][] = [[], [], []];
  const server = new URL(direct.baseUrls[0] as string).origin;
  const prefix = `${process.pid}-${performance.now()}`;
  for (let pair = 0; pair < pairs; pair += 1) {
    const one = () => leaveOne(direct, server, `${prefix}-${pair}-direct`);
    const other = () => leaveOne(proxied, server, `${prefix}-${pair}-proxied`);
    if (pair % 2 === 0) directMs!.push(await one());
    proxiedMs!.push(await other());
    if (pair % 2 === 1) directMs!.push(await one());
    const sent = performance.now();
    await answerOf(direct, {});
    roundTripMs!.push(performance.now() - sent);
  }
  return { direct: median(directMs!), proxied: median(proxiedMs!), roundTrip: median(roundTripMs!) };
}

async function leaveOne(target: CallTarget, server: string, name: string): Promise<number> {
  const controller = new AbortController();
  const request = modelRequest(target, { stream: true, user: "hanging", seed: name });
  const url = `${target.baseUrls[0]}/chat/completions`;
  const response = await directFetch(url, { ...request, signal: controller.signal });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  await Bun.sleep(5);
  const leftAt = performance.timeOrigin + performance.now();
  controller.abort();
  await reader.read().catch(() => {});
  for (;;) {
    const seen = (await (await directFetch(`${server}/left/${name}`)).json()) as number | null;
    if (seen !== null) return seen - leftAt;
    await Bun.sleep(1);
  }
}
