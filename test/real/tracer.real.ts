import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { traceAdapters } from "../../src/adapter/adapters.ts";
import { readModelSettings } from "../../src/algorithm/model-settings.ts";
import { VllmEngine } from "../../src/engine/vllm.ts";
import { silentLogger } from "../../src/log.ts";
import type { Span } from "../../src/protocol/types.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { rowsBy, startTracedRunners } from "../helpers/traced-runners.ts";

/**
 * Real vLLM with the small model and the real calculator: what the recording proxy and the tracer on the agent's side
 * saw of the same rollouts. AGL_PYTHON names an environment with vLLM.
 */
const python = process.env["AGL_PYTHON"];
if (python === undefined) throw new Error("set AGL_PYTHON to the Python of an environment with vLLM");

const minute = 60_000;
const root = join(import.meta.dir, "..", "..");
const model = join(root, "data", "small-model");
const { served_name, max_model_len, relative_tolerance } = readModelSettings(model);
const tasks = readFileSync(join(root, "data", "tasks", "validation.jsonl"), "utf8")
  .split("\n")
  .slice(0, 12)
  .map((line) => JSON.parse(line) as { input: string; target: number });

// Before the folder, which goes after the engine that writes into it.
afterAll(() => engine.stop(), minute);
const folder = temporaryFolder();
const port = freePort();
const upstream = { baseUrl: `http://127.0.0.1:${port}/v1`, model: served_name };
const engine = new VllmEngine({
  python,
  profile: "cpu",
  modelName: served_name,
  maxModelLen: max_model_len,
  port,
  folder,
  logFile: join(folder, "engine.log"),
  log: silentLogger,
});

beforeAll(() => engine.start({ path: model, name: "version_0" }), 10 * minute);

function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  server.stop(true);
  return server.port;
}

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
