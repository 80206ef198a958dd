import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { GpuMemory } from "../../src/engine/gpu-memory.ts";
import { AglError } from "../../src/errors.ts";
import { executable } from "../helpers/executable.ts";
import { fakeNvidiaSmi, type FakeGpuState } from "../helpers/fake-nvidia-smi.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const engine = { pid: 900, name: "VLLM::EngineCore", used: 851 };
const stranger = { pid: 123, name: "/opt/tools/bin/python3", used: 3_072 };
const desktop = { pid: 7, name: "/usr/lib/Xorg", used: 400 };

interface Watched {
  memory: GpuMemory;
  lines: string[];
  folder: string;
  abort: () => void;
}

function watch(states: FakeGpuState[], { limitMs = 20_000, env = {} } = {}): Watched {
  const folder = temporaryFolder();
  fakeNvidiaSmi(folder, states);
  const lines: string[] = [];
  const controller = new AbortController();
  const memory = new GpuMemory({
    limitMs,
    say: (line) => lines.push(line),
    signal: controller.signal,
    env: { PATH: `${folder}:/usr/bin:/bin`, ...env },
    pollMs: 1,
    sayEveryMs: 0,
  });
  return { memory, lines, folder, abort: () => controller.abort(new AglError("cancelled", "stopped")) };
}

async function failureOf(work: Promise<unknown>): Promise<AglError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(AglError);
  return error as AglError;
}

test("who holds how much, the largest first", async () => {
  const { memory } = watch([{ used: 4_300, holders: [desktop, stranger, engine] }]);
  expect(await memory.read()).toEqual({
    usedBytes: 4_300 * 2 ** 20,
    freeBytes: (24_576 - 4_300) * 2 ** 20,
    holders: [
      { pid: 123, name: "python3", bytes: 3_072 * 2 ** 20 },
      { pid: 900, name: "VLLM::EngineCore", bytes: 851 * 2 ** 20 },
      { pid: 7, name: "Xorg", bytes: 400 * 2 ** 20 },
    ],
  });
});

// O38
test("memory that another process holds for a while is waited for, with a counter that names it", async () => {
  const { memory, lines } = watch([
    { used: 0 },
    { used: 3_923, holders: [stranger, engine] },
    { used: 3_923, holders: [stranger, engine] },
    { used: 851, holders: [engine] },
  ]);
  await memory.rememberOthers();
  expect((await memory.untilFree(() => [900]))?.usedBytes).toBe(851 * 2 ** 20);
  expect(lines).toEqual([
    "gpu: waiting for memory, 3.2 GB still used by pid 123 (python3), 0 s",
    "gpu: waiting for memory, 3.2 GB still used by pid 123 (python3), 0 s",
  ]);
});

// O38
test("memory that never becomes free ends in an error that says who holds it", async () => {
  const { memory } = watch([{ used: 3_923, holders: [stranger, engine] }], { limitMs: 1 });
  const error = await failureOf(memory.untilFree(() => [900]));
  expect(error.message).toBe(
    "the GPU's memory did not become free within 0.001 s: 3072 MiB are still held by pid 123 (python3) with 3072 MiB",
  );
  expect(error.remedy).toContain("engine.memory_wait_seconds");
});

test("what others held before ours came is not waited for, what they take since is", async () => {
  const { memory, lines } = watch([
    { used: 400, holders: [desktop] },
    { used: 1_700, holders: [{ ...desktop, used: 1_700 }] },
    { used: 500, holders: [{ ...desktop, used: 500 }] },
  ]);
  await memory.rememberOthers();
  await memory.untilFree(() => []);
  expect(lines).toEqual(["gpu: waiting for memory, 1.4 GB still used by pid 7 (Xorg), 0 s"]);
});

test("where nobody is shown, what a sleeping engine keeps is still not waited for", async () => {
  const { memory, lines } = watch([{ used: 1_900 }]);
  expect((await memory.untilFree(() => [900]))?.usedBytes).toBe(1_900 * 2 ** 20);
  expect(lines).toEqual([]);
});

test("memory that nobody is shown to hold is said to be", async () => {
  const { memory } = watch([{ used: 3_000, holders: [{ ...stranger, used: "[N/A]" }] }], { limitMs: 1 });
  expect((await failureOf(memory.untilFree(() => []))).message).toContain(
    "3000 MiB are still held by a process that nvidia-smi does not show",
  );
});

test("the GPU that CUDA sees is the one that is looked at", async () => {
  const { memory, folder } = watch([{ used: 0 }], { env: { CUDA_VISIBLE_DEVICES: "2,3" } });
  await memory.read();
  expect(readFileSync(join(folder, "nvidia-smi.calls"), "utf8")).toStartWith("-i 2 --query-gpu=");
});

test("a stop ends the wait", async () => {
  const { memory, abort } = watch([{ used: 3_072, holders: [stranger] }]);
  const waiting = memory.untilFree(() => []);
  setTimeout(abort, 50);
  expect((await failureOf(waiting)).message).toBe("stopped");
});

test("without an answer nothing is waited for, and that is said once", async () => {
  const { memory, lines, folder } = watch([{ used: 3_072 }]);
  executable(folder, "nvidia-smi", "echo 'Failed to initialize NVML' >&2; exit 9");
  await memory.rememberOthers();
  expect(await memory.untilFree(() => [])).toBeUndefined();
  expect(lines).toEqual(["gpu: nvidia-smi gives no answer, so its memory is not watched"]);
});
