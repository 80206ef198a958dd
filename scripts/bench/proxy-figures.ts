import type { Bench } from "./bench.ts";
import type { Figure } from "./figures.ts";
import type { CallsShape, ProxySides, Side, Turn } from "./proxy-sides.ts";
import { rounds } from "./rounds.ts";
import { median, spreadOf } from "./statistics.ts";

type Round = Record<Side, Turn>;
type Value = (round: Round) => number;

/** A1 to A5 as far as they are measured: all ways of a call in turn, plain and streamed, by 1 and by 32 connections. */
export async function proxyFigures(bench: Bench, sides: ProxySides, ids: ReadonlySet<string>): Promise<void> {
  const { turnSeconds: seconds } = bench.options;
  const run = (shape: Omit<CallsShape, "seconds">) => measure(bench, sides, { ...shape, seconds });
  await warmUp(bench, sides);
  if (wanted(ids, ["A2", "A3", "A4"])) manyPlain(bench, await run({ connections: 32, streamed: false }), ids);
  if (wanted(ids, ["A3", "A4"])) manyStreams(bench, await run({ connections: 32, streamed: true }), ids);
  if (wanted(ids, ["A1", "A2"])) singlePlain(bench, await run({ connections: 1, streamed: false }), ids);
  if (wanted(ids, ["A5"])) {
    // One takes as long as dozens of the others, and the figure is of fractions of a millisecond.
    const shape = { connections: 1, streamed: true, paced: true, seconds: 2 * seconds };
    const ways = sides.sides.filter((side) => side !== "portkey" && side !== "litellm");
    singleStreams(bench, await measure(bench, sides, shape, { ways, pairs: 2 * bench.options.pairs }));
  }
}

/** Programs are compiled while they run: what is called rarely, as by one connection, would be measured half compiled. */
async function warmUp(bench: Bench, sides: ProxySides): Promise<void> {
  const seconds = 2 * bench.options.turnSeconds;
  for (const streamed of [false, true]) {
    for (const side of sides.sides) await sides.turn(side, { connections: 32, streamed, seconds });
  }
}

function wanted(ids: ReadonlySet<string>, some: string[]): boolean {
  return some.some((id) => ids.has(id));
}

interface Measured {
  rounds: Round[];
  sides: readonly Side[];
}

async function measure(
  bench: Bench,
  sides: ProxySides,
  shape: CallsShape,
  { ways = sides.sides, pairs = bench.options.pairs }: { ways?: Side[]; pairs?: number } = {},
): Promise<Measured> {
  const measured = await rounds(pairs, ways, (side) => sides.turn(side, shape));
  return { rounds: measured as Round[], sides: ways };
}

/** What is told beside a figure of recorded calls. */
const asideSides = [
  ["unrecorded", "the same, calls that are not recorded"],
  ["bare", "the same, a proxy that does nothing"],
] as const;

const onePlain = "plain calls of 2 KB, 1 connection";
const manyPlainNote = "plain calls of 2 KB, 32 connections from 1 process";
const oneStream = "streams of 32 events, 1 ms or more apart, 1 connection";
const manyStreamsNote = "streams of 32 events, 32 connections from 1 process";

function singlePlain(bench: Bench, measured: Measured, ids: ReadonlySet<string>): void {
  if (ids.has("A1")) {
    add(bench, measured, {
      id: "A1",
      name: "added p50 / direct p50",
      value: (round) => added(round, "recorded", "p50Ms") / round.direct.p50Ms,
      target: { at: "most", value: 1.6 },
      note: onePlain,
    });
    for (const [side, name] of asideSides) {
      const value: Value = (round) => added(round, side, "p50Ms") / round.direct.p50Ms;
      add(bench, measured, { id: "A1", name, value, beside: side, note: onePlain });
    }
    add(bench, measured, cpuFigure("A1", onePlain));
  }
  if (ids.has("A2")) againstOthers(bench, measured, { most: 0.2, note: onePlain });
}

function manyPlain(bench: Bench, measured: Measured, ids: ReadonlySet<string>): void {
  if (ids.has("A2")) againstOthers(bench, measured, { most: 0.083, note: manyPlainNote });
  if (ids.has("A3")) {
    add(bench, measured, {
      id: "A3",
      name: "calls/s / direct calls/s",
      value: (round) => round.recorded.rate / round.direct.rate,
      target: { at: "least", value: 0.4 },
      note: manyPlainNote,
    });
    add(bench, measured, {
      id: "A3",
      name: "the same, while answers come and records wait",
      value: ({ recorded: { calls, seconds }, direct }) => calls / seconds / direct.rate,
      note: manyPlainNote,
    });
    add(bench, measured, bareRate("the same, a proxy that does nothing", manyPlainNote));
    add(bench, measured, cpuFigure("A3", manyPlainNote));
  }
  if (ids.has("A4")) add(bench, measured, recordingTax(manyPlainNote));
}

function singleStreams(bench: Bench, measured: Measured): void {
  add(bench, measured, {
    id: "A5",
    name: "first bytes: added p50 / direct p50",
    value: (round) => added(round, "recorded", "firstP50Ms") / round.direct.firstP50Ms,
    target: { at: "most", value: 1 },
    note: oneStream,
  });
  for (const [side, name] of asideSides) {
    const value: Value = (round) => added(round, side, "firstP50Ms") / round.direct.firstP50Ms;
    add(bench, measured, { id: "A5", name, value, beside: side, note: oneStream });
  }
  add(bench, measured, {
    id: "A5",
    name: "whole streams: added p50 / direct p50",
    value: (round) => added(round, "recorded", "p50Ms") / round.direct.p50Ms,
    note: oneStream,
  });
}

function manyStreams(bench: Bench, measured: Measured, ids: ReadonlySet<string>): void {
  if (ids.has("A3")) {
    add(bench, measured, {
      id: "A3",
      name: "streams/s / direct streams/s",
      value: (round) => round.recorded.rate / round.direct.rate,
      note: manyStreamsNote,
    });
    add(bench, measured, bareRate("the same, a proxy that does nothing", manyStreamsNote));
    add(bench, measured, cpuFigure("A3", manyStreamsNote));
  }
  if (ids.has("A4")) add(bench, measured, recordingTax(manyStreamsNote));
}

function bareRate(name: string, note: string): Row {
  return { id: "A3", name, value: ({ bare, direct }) => bare.rate / direct.rate, beside: "bare", note };
}

function recordingTax(note: string): Row {
  return {
    id: "A4",
    name: "calls/s recorded / not recorded",
    value: (round) => round.recorded.rate / round.unrecorded.rate,
    beside: "unrecorded",
    target: { at: "least", value: 0.85 },
    note,
  };
}

function againstOthers(
  bench: Bench,
  measured: Measured,
  { most, note }: { most: number; note: string },
): void {
  const compare = (side: Side, other: Side, row: Pick<Row, "name" | "target">) => {
    if (!measured.sides.includes(other)) return;
    const value: Value = (round) => added(round, side, "p50Ms") / added(round, other, "p50Ms");
    add(bench, measured, { id: "A2", ...row, value, beside: other, note });
  };
  const target = { at: "most", value: most } as const;
  compare("recorded", "portkey", { name: "added p50 / Portkey's added p50", target });
  compare("bare", "portkey", { name: "the same, a proxy that does nothing" });
  compare("recorded", "litellm", { name: "added p50 / LiteLLM's added p50" });
}

function cpuFigure(id: string, note: string): Row {
  return {
    id,
    name: "processor time of proxy and store / of a direct call",
    value: ({ recorded, direct }) =>
      (recorded.cpu.proxy + recorded.cpu.store) / (direct.cpu.load + direct.cpu.model),
    note,
  };
}

function added(round: Round, side: Side, of: "p50Ms" | "firstP50Ms"): number {
  return round[side][of] - round.direct[of];
}

interface Row extends Pick<Figure, "id" | "name" | "target" | "note"> {
  value: Value;
  /** Beside direct and recorded calls. */
  beside?: Side;
}

function add(bench: Bench, { rounds: all }: Measured, { value: valueOf, beside, ...row }: Row): void {
  const { median: value, least, most } = spreadOf(all.map(valueOf));
  const sides: Side[] = ["direct", "recorded", ...(beside === undefined ? [] : [beside])];
  bench.figures.add({ ...row, value, unit: "", spread: [least, most], detail: detailOf(all, sides) });
}

/** What each side did: medians over the rounds. */
function detailOf(all: Round[], sides: readonly Side[]): Record<string, number> {
  const detail: Record<string, number> = {};
  for (const side of sides) {
    const over = (value: (turn: Turn) => number) => median(all.map((round) => value(round[side])));
    detail[`${side}_p50_ms`] = over(({ p50Ms }) => p50Ms);
    detail[`${side}_first_p50_ms`] = over(({ firstP50Ms }) => firstP50Ms);
    detail[`${side}_calls_per_s`] = over(({ rate }) => rate);
    const processes = side === "direct" ? (["load", "model"] as const) : (["proxy"] as const);
    for (const name of processes) detail[`${side}_${name}_cpu_ms`] = over(({ cpu }) => cpu[name]);
    if (side === "recorded") detail["recorded_store_cpu_ms"] = over(({ cpu }) => cpu.store);
  }
  return detail;
}
