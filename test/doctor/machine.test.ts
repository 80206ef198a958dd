import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { checkGpu, checkMemory, checkPort, checkSpace } from "../../src/doctor/machine.ts";
import { findGpus } from "../../src/engine/gpu.ts";
import { machineMemory } from "../../src/engine/machine-memory.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { executable } from "../helpers/executable.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const never = new AbortController().signal;

function gpuSaying(script: string, limitMs = 10_000) {
  const folder = temporaryFolder();
  executable(folder, "nvidia-smi", script);
  return findGpus(never, { env: { PATH: `${folder}:${process.env["PATH"]}` }, limitMs });
}

describe("the GPU", () => {
  test("is absent without nvidia-smi, which means profile cpu and is a problem only for cuda", async () => {
    const answer = await findGpus(never, { env: { PATH: temporaryFolder() } });
    expect(answer).toEqual({ kind: "absent" });
    expect(checkGpu("auto", "cpu", answer).status).toBe("ok");
    expect(checkGpu("cuda", "cuda", answer).status).toBe("problem");
    expect(checkGpu("cuda", "cuda", answer).remedy).toContain("--profile cpu");
  });

  test("is found with driver and memory", async () => {
    const answer = await gpuSaying(`echo "NVIDIA H200, 580.95.05, 143771, 143157, 9.0"`);
    expect(answer).toEqual({
      kind: "found",
      gpus: [
        {
          name: "NVIDIA H200",
          driver: "580.95.05",
          totalBytes: 143_771 * 2 ** 20,
          freeBytes: 143_157 * 2 ** 20,
          capability: 9,
        },
      ],
    });
    const { status, message } = checkGpu("auto", "cuda", answer);
    expect(status).toBe("ok");
    expect(message).toBe("NVIDIA H200, driver 580.95.05, 150.1 GB of 150.8 GB free: profile cuda");
  });

  test("that others use is a warning, and one that --profile cpu leaves alone is none", async () => {
    const used = await gpuSaying(`echo "A100, 580.1, 40000, 100, 8.0"`);
    expect(checkGpu("auto", "cuda", used)).toMatchObject({ status: "warning" });
    expect(checkGpu("auto", "cuda", used).message).toContain("others use it");
    expect(checkGpu("cpu", "cpu", used).status).toBe("ok");
  });

  test("with a driver that CUDA 13 does not run on is a problem, but not for profile cpu", async () => {
    const old = await gpuSaying(`echo "A100, 535.1, 40000, 40000, 8.0"`);
    const { status, message, remedy } = checkGpu("auto", "cuda", old);
    expect(status).toBe("problem");
    expect(message).toContain("driver 535.1 of A100 is too old: CUDA 13.0");
    expect(remedy).toBe("update the driver to 580 or later, or use --profile cpu");
    expect(checkGpu("cpu", "cpu", old).status).toBe("warning");
  });

  test("that cannot calculate in bfloat16 is a problem", async () => {
    const turing = await gpuSaying(`echo "Tesla T4, 580.1, 15360, 15000, 7.5"`);
    expect(checkGpu("auto", "cuda", turing)).toMatchObject({ status: "problem" });
    expect(checkGpu("auto", "cuda", turing).message).toContain("its compute capability is 7.5");
  });

  test("is asked again without what an old driver cannot answer", async () => {
    const old = await gpuSaying(
      `case "$1" in *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;; esac
       echo "A100, 450.1, 40000, 40000"`,
    );
    expect(checkGpu("cuda", "cuda", old).message).toContain("driver 450.1 of A100 is too old");
  });

  test("is the first of CUDA_VISIBLE_DEVICES; without any there is none", async () => {
    const folder = temporaryFolder();
    executable(folder, "nvidia-smi", `echo "$3, 580.1, 40000, 40000, 8.0"`);
    const visible = (devices: string) =>
      findGpus(never, {
        env: { PATH: `${folder}:${process.env["PATH"]}`, CUDA_VISIBLE_DEVICES: devices },
        limitMs: 10_000,
      });
    expect(await visible("3,1")).toMatchObject({ kind: "found", gpus: [{ name: "--id=3" }] });
    for (const none of ["", "-1", "NoDevFiles"]) expect(await visible(none)).toEqual({ kind: "absent" });
  });

  test("whose driver fails says what nvidia-smi says", async () => {
    const answer = await gpuSaying(
      `echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18`,
    );
    expect(checkGpu("auto", "cpu", answer)).toMatchObject({
      status: "problem",
      message: "profile auto: nvidia-smi fails: Failed to initialize NVML: Driver/library version mismatch",
    });
    expect(checkGpu("cpu", "cpu", answer).status).toBe("warning");
    const hangs = await gpuSaying("exec sleep 600", 100);
    expect(hangs).toEqual({ kind: "failed", message: "no answer within 0.1 s" });
    expect(await gpuSaying(`echo "No devices were found"; exit 6`)).toEqual({ kind: "absent" });
  });
});

describe("memory", () => {
  function root(files: Record<string, string>): string {
    const folder = temporaryFolder();
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    return folder;
  }
  const meminfo = "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  600 kB\n";

  test("is the machine's, caches counted as free", () => {
    const machine = { totalBytes: 1000 * 1024, freeBytes: 600 * 1024 };
    expect(machineMemory(root({ "proc/meminfo": meminfo }))).toEqual(machine);
    const unlimited = root({ "proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "max\n" });
    expect(machineMemory(unlimited)).toEqual(machine);
  });

  test("is the container's when that has less", () => {
    const version2 = {
      "sys/fs/cgroup/memory.max": "500000\n",
      "sys/fs/cgroup/memory.current": "300000\n",
      "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 100000\n",
    };
    const version1 = {
      "sys/fs/cgroup/memory/memory.limit_in_bytes": "500000\n",
      "sys/fs/cgroup/memory/memory.usage_in_bytes": "300000\n",
      "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 100000\n",
    };
    for (const files of [version2, version1]) {
      expect(machineMemory(root({ "proc/meminfo": meminfo, ...files }))).toEqual({
        totalBytes: 500_000,
        freeBytes: 300_000,
      });
    }
  });

  test("of this machine is some", () => {
    const { totalBytes, freeBytes } = machineMemory();
    expect(freeBytes).toBeGreaterThan(0);
    expect(totalBytes).toBeGreaterThan(freeBytes);
  });

  test("too small for the CPU profile is a warning", () => {
    expect(checkMemory("cpu", { freeBytes: 3e9, totalBytes: 4e9 }).message).toBe(
      "3.0 GB of 4.0 GB free; serving and training take at least 4.5 GB",
    );
    expect(checkMemory("cpu", { freeBytes: 5e9, totalBytes: 8e9 }).status).toBe("ok");
    expect(checkMemory("cuda", { freeBytes: 3e9, totalBytes: 4e9 }).status).toBe("ok");
  });
});

test("a port is free, taken by somebody named, or not used", () => {
  const port = freePort();
  expect(checkPort("store.port", port, true).status).toBe("ok");
  const server = Bun.serve({ hostname: "127.0.0.1", port, fetch: () => new Response() });
  try {
    expect(checkPort("store.port", port, false).status).toBe("warning");
    const taken = checkPort("store.port", port, true);
    expect(taken.message).toContain(`store.port: port ${port} is taken by pid ${process.pid} (`);
    expect(taken.remedy).toContain("--store-port");
  } finally {
    void server.stop(true);
  }
  expect(checkPort("engine.port", undefined, false).status).toBe("ok");
});

describe("a folder", () => {
  test("that is not there yet is judged by the one it will be made in", () => {
    const folder = temporaryFolder();
    expect(checkSpace("runs", join(folder, "a", "b"), 1, "--runs").status).toBe("ok");
    const full = checkSpace("runs", join(folder, "a"), 1e18, "--runs");
    expect(full.status).toBe("problem");
    expect(full.message).toMatch(/free, and about 1000000000.0 GB are needed$/);
    expect(full.remedy).toContain("--runs");
  });

  test("that cannot be made, as a file is in its way, is a problem", () => {
    const file = join(temporaryFolder(), "file");
    writeFileSync(file, "");
    expect(checkSpace("cache", join(file, "agl"), 1, "--cache").message).toBe(
      `cache: ${file} cannot be written`,
    );
  });
});
