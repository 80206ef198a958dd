import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startTrainer, type TrainJob, type TrainProgress } from "../../src/engine/trainer.ts";
import { AglError } from "../../src/errors.ts";
import { fakeTrainer } from "../helpers/fake-trainer.ts";
import { isAlive, until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const result = {
  kind: "result",
  rows: 2,
  dropped: { too_long: 1 },
  steps: 3,
  loss_before: 1.5,
  loss_after: 0.5,
  tensors: { changed: 1, total: 2 },
  seconds: { train: 1 },
  probes: [{ ids: [1, 2], before: [-1], after: [-0.5] }],
};

interface Started {
  train(): Promise<unknown>;
  stop(): Promise<void>;
  abort(reason: unknown): void;
  folder: string;
  job: TrainJob;
  progress: TrainProgress[];
}

async function start(body: string, options: { timeoutMs?: number; python?: string } = {}): Promise<Started> {
  const folder = temporaryFolder();
  const controller = new AbortController();
  const progress: TrainProgress[] = [];
  const trainer = startTrainer({
    python: options.python ?? (await fakeTrainer(folder, body)),
    script: join(folder, "sft.py"),
    workFolder: join(folder, "work"),
    logFile: join(folder, "logs", "trainer.log"),
    timeoutMs: options.timeoutMs ?? 20_000,
    signal: controller.signal,
    onProgress: (line) => progress.push(line),
  });
  const job = jobIn(folder);
  return {
    train: () => trainer.train(job),
    stop: () => trainer.stop(),
    abort: (reason) => controller.abort(reason),
    folder,
    job,
    progress,
  };
}

function jobIn(folder: string): TrainJob {
  return {
    base: join(folder, "base"),
    output: join(folder, "output"),
    rows: join(folder, "rows.jsonl"),
    profile: "cpu",
    seed: 0,
    max_length: 64,
    hyper: {
      lora_r: 1,
      lora_alpha: 1,
      lora_dropout: 0,
      learning_rate: 0.1,
      weight_decay: 0,
      warmup_steps: 0,
      schedule: "linear",
      batch_size: 1,
      accumulation: 1,
      epochs: 1,
      max_steps: null,
      optimizer: "adamw_torch",
    },
    threads: 1,
    progress: join(folder, "progress.jsonl"),
  };
}

async function failureOf(promise: Promise<unknown>): Promise<AglError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AglError);
  return error as AglError;
}

const writes = (...lines: unknown[]) =>
  lines
    .map((line) => `echo '${typeof line === "string" ? line : JSON.stringify(line)}' >> "$PROGRESS"`)
    .join("\n");

test("the result comes back, progress on the way, and the job file is the job", async () => {
  const body = `cp "$JOB" copy.json\n${writes(
    { kind: "progress", phase: "load" },
    { kind: "progress", phase: "train", step: 1, steps: 3, loss: 1.5 },
    { kind: "something newer" },
    result,
  )}`;
  const started = await start(body);
  expect(await started.train()).toEqual(result);
  expect(started.progress).toEqual([
    { kind: "progress", phase: "load" },
    { kind: "progress", phase: "train", step: 1, steps: 3, loss: 1.5 },
  ]);
  expect(JSON.parse(readFileSync(join(started.folder, "work", "copy.json"), "utf8"))).toEqual(started.job);
});

test("a result in pieces is read once it is whole", async () => {
  const text = JSON.stringify(result);
  const half = `printf '%s' '${text.slice(0, 100)}' >> "$PROGRESS"\nsleep 0.5\necho '${text.slice(100)}' >> "$PROGRESS"`;
  const started = await start(half);
  expect(await started.train()).toEqual(result);
});

test("the error line is the cause, whatever else was printed", async () => {
  const started = await start(
    `echo 'ValueError: a follow-up' >&2\n${writes({ kind: "error", message: "rows.jsonl:2: field labels is missing" })}\nexit 1`,
  );
  const error = await failureOf(started.train());
  expect(error.boundary).toBe("trainer");
  expect(error.message).toBe("the training failed: rows.jsonl:2: field labels is missing");
  expect(error.remedy).toContain(join(started.folder, "logs", "trainer.log"));
});

test("without an error line the exception it printed is the cause", async () => {
  const started = await start(
    `printf 'Traceback (most recent call last):\\n  File "sft.py", line 3\\nImportError: no module torch\\n' >&2\nexit 1`,
  );
  expect((await failureOf(started.train())).message).toBe(
    "the training failed: ImportError: no module torch",
  );
  expect(readFileSync(join(started.folder, "logs", "trainer.log"), "utf8")).toContain("Traceback");
});

test("a trainer killed from outside is said to be", async () => {
  const started = await start("kill -9 $$");
  expect((await failureOf(started.train())).message).toContain(
    "killed (SIGKILL), most likely for want of memory",
  );
});

test("a result is not believed when the exit code is not 0", async () => {
  const started = await start(`${writes(result)}\nexit 3`);
  expect((await failureOf(started.train())).message).toBe("the training failed: exit code 3");
});

test("an exit without a result is a failure", async () => {
  expect((await failureOf((await start("exit 0")).train())).message).toBe(
    "the training failed: it ended without a result",
  );
});

test("a trainer that died before its job says why", async () => {
  const folder = temporaryFolder();
  const dead = join(folder, "dead");
  writeFileSync(dead, "#!/bin/sh\necho 'ModuleNotFoundError: No module named trl' >&2\nexit 1\n", {
    mode: 0o755,
  });
  const started = await start("", { python: dead });
  await Bun.sleep(300);
  expect((await failureOf(started.train())).message).toBe(
    "the training failed: ModuleNotFoundError: No module named trl",
  );
});

test("a Python that does not exist is a failure with its name", async () => {
  const started = await start("", { python: "/nowhere/python" });
  const error = await failureOf(started.train());
  expect(error.message).toBe("the training failed: /nowhere/python does not exist");
});

describe("what ends a training early leaves no process", () => {
  const hanging = `sleep 600 &\necho "$! $$" > pids\nwait`;
  const pidsOf = async ({ folder }: Started) => {
    const file = join(folder, "work", "pids");
    await until("the trainer runs", () => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"));
    return readFileSync(file, "utf8").trim().split(" ").map(Number);
  };

  test("the time limit", async () => {
    const started = await start(hanging, { timeoutMs: 1_500 });
    const training = failureOf(started.train());
    const pids = await pidsOf(started);
    const error = await training;
    expect(error.message).toBe("the training took longer than 1.5 s");
    expect(error.remedy).toContain("trainer.timeout_seconds");
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("an abort, whose reason is what is thrown", async () => {
    const started = await start(hanging);
    const training = failureOf(started.train());
    const pids = await pidsOf(started);
    const reason = new AglError("cancelled", "stopped by SIGINT", { exitCode: 130 });
    started.abort(reason);
    expect(await training).toBe(reason);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("stop, also before the job and twice", async () => {
    const started = await start(hanging);
    await Promise.all([started.stop(), started.stop()]);
    await started.stop();
    expect((await failureOf(started.train())).message).toContain("the training failed");
  });
});

test("a trainer trains once", async () => {
  const started = await start(writes(result));
  await started.train();
  await expect(started.train()).rejects.toThrow("trains once");
});

test("an earlier progress file's result is not taken for this training's", async () => {
  const started = await start("exit 0");
  writeFileSync(started.job.progress, JSON.stringify(result) + "\n");
  expect((await failureOf(started.train())).message).toContain("it ended without a result");
});
