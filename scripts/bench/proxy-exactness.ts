import { connectStore } from "../../src/client/http-store.ts";
import { directFetch } from "../../src/client/loopback-fetch.ts";
import { spanNames } from "../../src/protocol/semconv.ts";
import type { Bench } from "./bench.ts";
import { ProxySides } from "./proxy-sides.ts";
import { spreadOf, sum } from "./statistics.ts";

/** A5: the agent gets what the model server alone would have sent, and its leaving is heard at once. */
export async function answersAsDirect(bench: Bench, sides: ProxySides): Promise<void> {
  const attempts = await sides.newAttempts(1);
  const ways = { direct: sides.target("direct", []), proxied: sides.target("recorded", attempts) };
  const calls = bench.count(240, 24);
  const { differences, first } = await bench.load().run("compareAnswers", { ...ways, calls });
  bench.figures.add({
    id: "A5",
    name: "answers that differ from the direct ones",
    value: differences,
    unit: "",
    target: { at: "exactly", value: 0 },
    detail: { calls, ...(first === undefined ? {} : { first }) },
    note: "byte for byte, plain and streamed, with and without tools, usage, and ids that the agent itself asked for",
  });
  const turns = [];
  for (let turn = 0; turn < bench.options.pairs; turn += 1) {
    turns.push(await bench.load().run("leaveStreams", { ...ways, pairs: bench.count(40, 4) }));
  }
  const {
    median: value,
    least,
    most,
  } = spreadOf(turns.map(({ direct, proxied, roundTrip }) => (proxied - direct) / roundTrip));
  bench.figures.add({
    id: "A5",
    name: "agent leaves: added until the server knows / direct call",
    value,
    unit: "",
    spread: [least, most],
    target: { at: "most", value: 1 },
    detail: turns[0]!,
    note: "streams left in the middle",
  });
  await sides.flush(attempts[0]!);
}

/** A6: as many calls are in the store as were answered. */
export async function allRecorded(bench: Bench, sides: ProxySides): Promise<void> {
  for (const streamed of [false, true]) {
    await sides.turn("recorded", { connections: 32, seconds: bench.options.turnSeconds, streamed });
  }
  const calls = sum(sides.answered.map((each) => each.calls));
  const recorded = await recordedCalls(
    sides,
    sides.answered.map(({ attempt }) => attempt.rolloutId),
  );
  const differing = sides.answered.filter(({ calls: count }, index) => count !== recorded[index]).length;
  bench.figures.add({
    id: "A6",
    name: "attempts whose recorded calls are not those answered",
    value: differing,
    unit: "",
    target: { at: "exactly", value: 0 },
    detail: { attempts: sides.answered.length, answered: calls, recorded: sum(recorded) },
  });
}

/** A6: a proxy that is killed loses at most what the store had not acknowledged. */
export async function killedProxy(bench: Bench): Promise<void> {
  const sides = await ProxySides.start(bench, {});
  const attempts = await sides.newAttempts(32);
  const seconds = 3 * bench.options.turnSeconds;
  const target = sides.target("recorded", attempts);
  const job = { target, connections: 32, seconds, streamed: false, untilBroken: true };
  const calling = bench.load().run("modelCalls", job);
  await Bun.sleep(500 * seconds);
  const { spansStored } = await statisticsOf(sides);
  await sides.proxy.stop("SIGKILL");
  const { calls } = await calling;
  const recorded = sum(
    await recordedCalls(
      sides,
      attempts.map(({ rolloutId }) => rolloutId),
    ),
  );
  const acknowledged = Math.floor(spansStored / spansPerCall);
  bench.figures.add({
    id: "A6",
    name: "acknowledged calls that are missing after kill -9 of the proxy",
    value: Math.max(0, acknowledged - recorded),
    unit: "",
    target: { at: "exactly", value: 0 },
    detail: { answered: calls, acknowledged, recorded, missing: calls - recorded },
    note: "plain calls, 32 connections; acknowledged: at the last look before the kill",
  });
  await sides.stop();
}

/** Of a plain call that succeeded. */
const spansPerCall = 3;

async function statisticsOf({ proxy }: ProxySides): Promise<{ spansStored: number }> {
  const response = await directFetch(`http://127.0.0.1:${proxy.port}/statistics`);
  return (await response.json()) as { spansStored: number };
}

/** Of each rollout. */
async function recordedCalls({ store: { port } }: ProxySides, rolloutIds: string[]): Promise<number[]> {
  const store = connectStore(`http://127.0.0.1:${port}`);
  const counts: number[] = [];
  for (const rollout_id of rolloutIds) {
    const { total } = await store.querySpans({ rollout_id, name: spanNames.litellmRequest, limit: 1 });
    counts.push(total);
  }
  await store.close();
  return counts;
}
