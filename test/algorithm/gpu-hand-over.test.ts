import { afterEach, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AlgorithmSettings } from "../../src/algorithm/algorithm.ts";
import { GpuHandOver } from "../../src/algorithm/gpu-hand-over.ts";
import { ManagedEngine } from "../../src/algorithm/managed-engine.ts";
import { isStableCheckpoint } from "../../src/engine/checkpoint.ts";
import { adapterProblem } from "../../src/engine/lora-adapter.ts";
import { GpuMemory } from "../../src/engine/gpu-memory.ts";
import type { Trainer, TrainJob, TrainResult } from "../../src/engine/trainer.ts";
import { VllmEngine } from "../../src/engine/vllm.ts";
import { AglError } from "../../src/errors.ts";
import { silentLogger } from "../../src/log.ts";
import { createRunFolder } from "../../src/run-folder.ts";
import { executable } from "../helpers/executable.ts";
import { fakePython, type FakeEngineScript } from "../helpers/fake-engine.ts";
import { writeAdapter } from "../helpers/lora-adapter.ts";
import { modelFolder } from "../helpers/model-folder.ts";
import { safetensors } from "../helpers/safetensors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const row = { input_ids: [1, 2, 3], attention_mask: [1, 1, 1], labels: [-100, 2, 3], reward: 1 };
const root = temporaryFolder();
const baseFolder = modelFolder();
const engines: VllmEngine[] = [];
let number = 0;

afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.stop()));
});

interface Fixture {
  engine: ManagedEngine;
  vllm: VllmEngine;
  /** What happened, in order: lines said, calls held off and let through, and the trainer. */
  events: string[];
}

/** A GPU of 24 GB of which the engine takes 8 awake and 851 MiB asleep, as long as it is there. */
function fakeGpu(folder: string, gpuFile: string): void {
  executable(
    folder,
    "nvidia-smi",
    `awake=$(cat '${gpuFile}' 2>/dev/null || echo 0)
held=0; pids=$(cat '${folder}/server.pid' 2>/dev/null)
kill -0 $pids 2>/dev/null && held=851
[ "$awake" = 1 ] && held=8000
[ -e '${folder}/keeps' ] && held=8000
case "$*" in
  *--query-gpu=*) echo "$held, $((24576 - held))" ;;
  *) [ $held -gt 0 ] && echo "$pids, VLLM::EngineCore, $held"; true ;;
esac`,
  );
}

async function fixture(
  script: FakeEngineScript = {},
  { between = "swap" as "swap" | "restart", keeps = false, keepAdapter = false } = {},
): Promise<Fixture> {
  const folder = join(root, String(++number));
  mkdirSync(folder);
  const gpuFile = join(folder, "awake");
  fakeGpu(folder, gpuFile);
  const events: string[] = [];
  const say = (line: string) => events.push(line);
  const { signal } = new AbortController();
  const vllm = new VllmEngine({
    python: await fakePython(folder, "python", { ...script, gpuFile, pidFile: join(folder, "server.pid") }),
    profile: "cuda",
    modelName: "small",
    maxModelLen: 512,
    folder: join(folder, "engine"),
    logFile: join(folder, "vllm.log"),
    log: silentLogger,
    startTimeoutMs: 20_000,
    probeTimeoutMs: 10_000,
  });
  engines.push(vllm);
  const env = { PATH: `${folder}:/usr/bin:/bin` };
  const memory = new GpuMemory({ limitMs: 3_000, say, signal, env, pollMs: 10, sayEveryMs: 60_000 });
  const base = { path: baseFolder, name: "version_0" };
  const engine = new ManagedEngine({
    settings: { ...settings(between), keepAdapter },
    vllm,
    startTrainer: () => trainer(events, vllm),
    route: (checkpoint) => Promise.resolve(void events.push(`route ${checkpoint?.name ?? "nothing"}`)),
    flush: () => Promise.resolve(void events.push("flush")),
    handOver: new GpuHandOver({ vllm, memory, between, signal, say }),
    base,
    folder: createRunFolder(join(folder, "runs")),
    signal,
    say,
  });
  await engine.start();
  if (keeps) writeFileSync(join(folder, "keeps"), "");
  events.length = 0;
  return { engine, vllm, events };
}

function settings(between: "swap" | "restart"): AlgorithmSettings {
  const training = { max_length: 512 };
  return {
    profile: "cuda",
    seed: 0,
    between,
    maxModelLen: 512,
    trainerThreads: 1,
    keepAdapter: false,
    modelName: "small",
    model: { training },
  } as unknown as AlgorithmSettings;
}

/** Writes the base with one byte changed, and says what state the engine was in meanwhile. */
function trainer(events: string[], vllm: VllmEngine): Trainer {
  return {
    processes: [],
    stop: () => Promise.resolve(),
    async train({ base, output, keep_adapter }: TrainJob): Promise<TrainResult> {
      events.push(`train while the engine is ${vllm.state}`);
      cpSync(base, output, { recursive: true });
      const weight = { dtype: "BF16", shape: [2, 2], bytes: [1, 2, 3, 4, 5, 6, 7, 9] };
      writeFileSync(join(output, "model.safetensors"), safetensors({ weight }));
      if (keep_adapter === true) writeAdapter(join(output, "adapter"), base);
      return {
        kind: "result",
        rows: 1,
        dropped: {},
        steps: 1,
        loss_before: 1,
        loss_after: 0.5,
        tensors: { changed: 1, total: 1 },
        seconds: {},
        gpu_peak_bytes: 3_000 * 2 ** 20,
        probes: [{ ids: [1, 2, 3], before: [-1, -1], after: [-0.5, -0.5] }],
      };
    },
  };
}

async function trainAndServe({ engine }: Fixture) {
  return await engine.serve(await engine.train([row], "version_1"));
}

test("the engine sleeps while the trainer works, calls are held off, and it wakes with the new weights", async () => {
  const made = await fixture();
  const served = await trainAndServe(made);
  expect(made.events).toEqual([
    "version_1: handing the GPU to the trainer",
    "route nothing",
    "flush",
    "version_1: training on 1 rows",
    "train while the engine is sleeping",
    "version_1: swapping the weights",
    "route nothing",
    "route version_1",
  ]);
  expect(served).toEqual({
    method: "swap",
    to_new: 0,
    to_old: 0.5,
    gpu: { serving: 8_000, asleep: 851, trainer_peak: 3_000, after_trainer: 851, awake: 8_000 },
  });
  expect(made.engine.checkpoint.name).toBe("version_1");
});

test("an adapter that is kept lies in the version's folder, for the base it was trained on", async () => {
  const made = await fixture({}, { keepAdapter: true });
  const { checkpoint } = await made.engine.train([row], "version_1");
  expect(adapterProblem(join(checkpoint.path, "adapter"), baseFolder)).toBeUndefined();
  expect(isStableCheckpoint(checkpoint.path)).toBe(true);
});

test("no adapter is kept unasked", async () => {
  const made = await fixture();
  const { checkpoint } = await made.engine.train([row], "version_1");
  expect(existsSync(join(checkpoint.path, "adapter"))).toBe(false);
});

test("restart stops the engine for the training and starts it with the new weights", async () => {
  const made = await fixture({}, { between: "restart" });
  const { method, gpu } = await trainAndServe(made);
  expect(made.events).toContain("train while the engine is stopped");
  expect(method).toBe("restart");
  expect(gpu).toEqual({ serving: 8_000, asleep: 0, trainer_peak: 3_000, after_trainer: 0, awake: 8_000 });
});

const troubles: [string, FakeEngineScript, { state: string; line: string }][] = [
  [
    "refuses to sleep",
    { refusesSleep: true },
    {
      state: "stopped",
      line: "the engine cannot sleep (/sleep?level=2 answered 400: sleep mode is not enabled); stopping it for the training",
    },
  ],
  [
    "does not wake",
    { refusesWake: "weights" },
    {
      state: "sleeping",
      line: "the engine could not be woken (/wake_up?tags=weights answered 500: CUDA out of memory); restarting it",
    },
  ],
  [
    "takes no weights",
    { refusesReload: true },
    {
      state: "sleeping",
      line: "the engine could not be woken (/collective_rpc answered 500: no such method); restarting it",
    },
  ],
];

for (const [what, script, { state, line }] of troubles) {
  test(`an engine that ${what} is started again, which is said in one line`, async () => {
    const made = await fixture(script);
    const { method, to_new } = await trainAndServe(made);
    expect(made.events).toContain(`train while the engine is ${state}`);
    expect(made.events.filter((event) => event === line)).toHaveLength(1);
    expect([method, to_new]).toEqual(["restart", 0]);
  });
}

test("an engine that dies asleep is started again", async () => {
  const made = await fixture({ diesAsleep: true });
  const trained = await made.engine.train([row], "version_1");
  while (made.vllm.state === "sleeping") await Bun.sleep(10);
  expect((await made.engine.serve(trained)).method).toBe("restart");
  expect(made.events).toContain("the engine ended while it slept; starting it again");
});

test("an engine that sleeps but keeps its memory is stopped, and what nobody lets go of is named", async () => {
  const made = await fixture({}, { keeps: true });
  const failure = await made.engine.train([row], "version_1").catch((error: unknown) => error);
  expect(made.events).toContain("the engine sleeps but keeps its memory; stopping it for the training");
  expect(failure).toBeInstanceOf(AglError);
  expect((failure as AglError).message).toMatch(/8000 MiB are still held by pid \d+ \(VLLM::EngineCore\)/);
  expect(made.vllm.state).toBe("stopped");
}, 30_000);
