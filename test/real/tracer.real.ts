import { beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { traceAdapters } from "../../src/adapter/adapters.ts";
import type { Span } from "../../src/protocol/types.ts";
import { smallEngine, smallModel, validationTasks } from "./small-engine.ts";
import { rowsBy, startTracedRunners } from "../helpers/traced-runners.ts";

/** Real vLLM with the small model and the real calculator: what the recording proxy and the tracer on the agent's side saw of the same rollouts. */
const minute = 60_000;
const { relative_tolerance } = smallModel;
const tasks = validationTasks(12);
let upstream: { baseUrl: string; model: string };

beforeAll(async () => {
  upstream = await smallEngine();
}, 10 * minute);

async function workThrough(which: "proxied" | "direct", agentFile: string | null): Promise<Span[][]> {
  const agentSettings =
    agentFile === null && relative_tolerance !== undefined ? { relativeTolerance: relative_tolerance } : {};
  await using fixture = await startTracedRunners(upstream, { agentFile, agentSettings });
  const { runners } = fixture;
  const ids = await Promise.all(tasks.map((task) => runners.enqueue(task, { resources_id: fixture[which] })));
  const ended = await Promise.all(ids.map((id) => runners.ended(id)));
  expect(ended.map(({ status }) => status)).toEqual(tasks.map(() => "succeeded"));
  return Promise.all(ids.map((id) => runners.spans(id)));
}

function countOf(rollouts: Span[][], name: string): number {
  return rollouts.flat().filter((span) => span.name === name).length;
}

describe("the proxy and the tracer make the same rows of the same rollouts", () => {
  test.each<[string, string | null]>([
    ["plain calls of the math agent", null],
    ["streamed and plain calls", join(import.meta.dir, "alternating-agent.ts")],
  ])(
    "%s",
    async (_, agentFile) => {
      const rollouts = await workThrough("proxied", agentFile);
      const [byProxy, byTracer] = Object.values(traceAdapters).map((adapt) => rowsBy(adapt, rollouts));
      expect(byTracer).toEqual(byProxy as never);
      expect(byProxy?.dropped).toEqual({});
      expect(byProxy?.kept.length).toBe(countOf(rollouts, "raw_gen_ai_request"));
      expect(byProxy?.kept.length).toBeGreaterThan(tasks.length);
      expect(new Set(byProxy?.kept.map(({ reward }) => reward))).toEqual(new Set([0, 1]));
    },
    3 * minute,
  );
});

test(
  "without a proxy, the tracer makes a row of every call, the one the engine was asked for",
  async () => {
    const direct = await workThrough("direct", null);
    const { kept, dropped } = rowsBy(traceAdapters.tracer, direct);
    expect(dropped).toEqual({});
    expect(kept.length).toBe(countOf(direct, "openai.chat.completion"));
    // At temperature 0, the same tasks give the same rows as through the proxy.
    const proxied = rowsBy(traceAdapters.proxy, await workThrough("proxied", null));
    expect(kept).toEqual(proxied.kept);
  },
  3 * minute,
);
