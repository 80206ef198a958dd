import { describe, expect, test } from "bun:test";
import { mkdirSync, truncateSync } from "node:fs";
import { join } from "node:path";
import type { CheckResult } from "../../src/doctor/check.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { executable } from "../helpers/executable.ts";
import { fakePython } from "../helpers/fake-engine.ts";
import { causalConfig, hollowWeights, modelFolder } from "../helpers/model-folder.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

/** `agl` on machines whose nvidia-smi tells of other GPUs than the one under the tests, if any. */
const agent = "export default { name: 'quick', run: (task) => task.target };";

/** A folder with a PATH of its own, on which nvidia-smi says this. */
async function machine(says: string) {
  const folder = temporaryFolder();
  const programs = join(folder, "programs");
  mkdirSync(programs);
  executable(programs, "nvidia-smi", says);
  await Bun.write(join(folder, "agent.ts"), agent);
  await Bun.write(join(folder, "tasks.jsonl"), '{"input": "1", "target": 1}\n');
  const environment = {
    PATH: `${programs}:/usr/bin:/bin`,
    HOME: folder,
    AGL_CACHE: join(folder, "cache"),
    AGL_STORE_PORT: String(freePort()),
    AGL_PROXY_PORT: String(freePort()),
  };
  return { folder, environment };
}

const gpuOf = (mebibytes: number, driver = "580.95.05") =>
  `echo "NVIDIA X, ${driver}, ${mebibytes}, ${mebibytes - 300}, 8.9"`;
const none = `echo "No devices were found"; exit 6`;

/** With the shape of Qwen3-4B; its weights are a hole. */
function largeModel(): string {
  const { header, length } = hollowWeights(4_022_468_096);
  const shape = { num_hidden_layers: 36, num_attention_heads: 32, num_key_value_heads: 8, head_dim: 128 };
  const folder = modelFolder({
    "config.json": JSON.stringify({ ...causalConfig, ...shape, max_position_embeddings: 262_144 }),
    "model.safetensors": header,
  });
  truncateSync(join(folder, "model.safetensors"), length);
  return folder;
}

async function run(says: string, args: string[]) {
  const { folder, environment } = await machine(says);
  const python = await fakePython(folder, "python", { exits: 1, prints: ["the fake engine ends"] });
  const tasks = ["--agent", "agent.ts", "--tasks-train", "tasks.jsonl", "--tasks-validation", "tasks.jsonl"];
  return runAgl(["allinone", ...tasks, "--log-level", "debug", ...args], folder, {
    ...environment,
    AGL_PYTHON: python,
  });
}

describe("a run", () => {
  test("on a GPU starts vLLM with flags by its memory, and says what became smaller", async () => {
    const { out, err } = await run(gpuOf(8_188), ["--model", largeModel()]);
    expect(out).toContain("profile cuda");
    expect(out).toContain("gpu: context of 8096 tokens instead of 32768");
    expect(err).toContain("--max-model-len 8096 ");
    expect(err).toContain("--gpu-memory-utilization 0.7 --quantization bitsandbytes --enable-sleep-mode");
  });

  test("with settings of its own passes these on", async () => {
    const { err } = await run(gpuOf(81_559), ["--engine-gpu-memory-utilization", "0.3"]);
    expect(err).toContain("--max-model-len 1024 ");
    expect(err).toContain("--gpu-memory-utilization 0.3 --enable-sleep-mode");
    expect(err).not.toContain("--quantization");
  });

  test("with --profile cpu leaves the GPU alone", async () => {
    const { out, err } = await run(gpuOf(8_188), ["--profile", "cpu"]);
    expect(out).toContain("profile cpu");
    expect(err).toContain("--enforce-eager");
    expect(err).not.toContain("--enable-sleep-mode");
  });

  const refused: [string, string, string[], string][] = [
    ["too old a driver", gpuOf(81_559, "535.1"), [], "driver 535.1 of NVIDIA X is too old: CUDA 13.0"],
    ["too little memory", gpuOf(2_048), [], "the GPU's memory is too small; training: server asleep"],
    ["a driver that fails", "echo 'NVML: version mismatch'; exit 18", [], "nvidia-smi fails: NVML"],
    ["no GPU, and cuda asked for", none, ["--profile", "cuda"], "profile cuda: nvidia-smi finds no GPU"],
  ];
  test.each(refused)("with %s stops and names --profile cpu", async (_, says, args, message) => {
    const { code, out, err } = await run(says, args);
    expect(err).toContain(message);
    expect(err).toContain("--profile cpu");
    expect(code).not.toBe(0);
    expect(out).not.toContain("starting the engine");
  });

  test("in 4 bits on the CPU is refused", async () => {
    const { err } = await run(none, ["--profile", "cpu", "--engine-quantization", "bitsandbytes"]);
    expect(err).toContain("engine.quantization: bitsandbytes needs a GPU");
  });
});

describe("doctor", () => {
  async function findings(says: string, model: string, flags: string[] = []) {
    const { folder, environment } = await machine(says);
    const { code, out } = await runAgl(
      ["doctor", "--json", "--model", model, "--agent", "agent.ts", ...flags],
      folder,
      environment,
    );
    const { checks } = JSON.parse(out) as { checks: CheckResult[] };
    return { code, model: checks.filter(({ check }) => check === "model") };
  }

  const fitting: [number, string, number, string][] = [
    [
      8,
      "8096 tokens",
      8_188,
      "--max-model-len 8096 --gpu-memory-utilization 0.7 --quantization bitsandbytes",
    ],
    [
      16,
      "48848 tokens",
      16_376,
      "--max-model-len 32768 --gpu-memory-utilization 0.7 --quantization bitsandbytes",
    ],
    [24, "54144 tokens", 24_564, "--max-model-len 32768 --gpu-memory-utilization 0.7 --enable-sleep-mode"],
    [80, "337856 tokens", 81_559, "--max-model-len 32768 --gpu-memory-utilization 0.7 --enable-sleep-mode"],
  ];
  test.each(fitting)("shows the arithmetic for %d GB: %s", async (_, tokens, mebibytes, flags) => {
    const { model } = await findings(gpuOf(mebibytes), largeModel());
    expect(model.every(({ status }) => status === "ok")).toBe(true);
    const said = model.map(({ message }) => message).join("\n");
    expect(said).toContain(`of KV cache, ${tokens} of 147.5 kB`);
    expect(said).toMatch(/training: server asleep 0.9, .* are 6.7 GB of [\d.]+ GB free/);
    expect(said).toContain(`fits: ${flags}`);
  });

  test("says what does not fit, and what to set", async () => {
    const { code, model } = await findings(gpuOf(8_188), largeModel(), ["--engine-quantization", "none"]);
    expect(code).toBe(1);
    expect(model[0]?.message).toContain("too small for a context of 2048 tokens; serving: 0.7 of 8.6 GB");
    expect(model[0]?.remedy).toContain("set --engine-quantization bitsandbytes, ");
    expect(model[0]?.remedy).toContain("--profile cpu");
  });
});

test("setup makes the environment of a GPU where there is none", async () => {
  const { folder, environment } = await machine(none);
  const uv = executable(folder, "uv", "exit 1");
  const { err } = await runAgl(["setup", "--profile", "cuda"], folder, { ...environment, AGL_UV: uv });
  expect(err).not.toContain("nvidia-smi");
  expect(err).toMatch(/Python 3\.11, 3\.12 or 3\.13 is needed|making the Python environment takes/);
});
