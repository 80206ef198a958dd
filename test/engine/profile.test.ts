import { describe, expect, test } from "bun:test";
import type { GpuAnswer } from "../../src/engine/gpu.ts";
import { findGpus } from "../../src/engine/gpu.ts";
import { chooseProfile, profileFor, type ProfileSetting } from "../../src/engine/profile.ts";
import { AglError } from "../../src/errors.ts";
import { executable } from "../helpers/executable.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const never = new AbortController().signal;

/** The profile on a machine whose nvidia-smi is this script; without one there is none. */
function chosen(configured: ProfileSetting, script?: string) {
  const folder = temporaryFolder();
  if (script !== undefined) executable(folder, "nvidia-smi", script);
  const find = (signal: AbortSignal): Promise<GpuAnswer> => findGpus(signal, { env: { PATH: folder } });
  return chooseProfile(configured, never, find);
}

async function refusal(configured: ProfileSetting, script?: string): Promise<AglError> {
  const error = await chosen(configured, script).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(AglError);
  return error as AglError;
}

const modern = `echo "NVIDIA L4, 580.95.05, 23034, 22500, 8.9"`;
const oldDriver = `echo "NVIDIA L4, 550.54.15, 23034, 22500, 8.9"`;

describe("auto", () => {
  test("is cuda where a GPU can be used, cpu where there is none", async () => {
    const { profile, gpu } = await chosen("auto", modern);
    expect(profile).toBe("cuda");
    expect(gpu).toMatchObject({ name: "NVIDIA L4", totalBytes: 23_034 * 2 ** 20 });
    expect(await chosen("auto")).toEqual({ profile: "cpu" });
    expect(await chosen("auto", `echo "No devices were found"; exit 6`)).toEqual({ profile: "cpu" });
  });

  test("stops at a GPU that cannot be used instead of being slow on the CPU", async () => {
    const { message, remedy } = await refusal("auto", oldDriver);
    expect(message).toBe(
      "profile auto: driver 550.54.15 of NVIDIA L4 is too old: CUDA 13.0, which torch is built for, needs 580 or later",
    );
    expect(remedy).toBe("update the driver to 580 or later, or use --profile cpu");
    const failing = await refusal("auto", `echo "Driver/library version mismatch"; exit 18`);
    expect(failing.message).toContain("nvidia-smi fails: Driver/library version mismatch");
    expect(failing.remedy).toContain("--profile cpu");
  });
});

test("cuda stops without a GPU", async () => {
  const { message, remedy } = await refusal("cuda");
  expect(message).toBe("profile cuda: nvidia-smi finds no GPU");
  expect(remedy).toContain("--profile cpu");
});

test("cpu looks at no GPU", async () => {
  const find = () => Promise.reject(new Error("looked"));
  expect(await chooseProfile("cpu", never, find)).toEqual({ profile: "cpu" });
});

test("what was configured is never another one", async () => {
  const found = await findGpus(never, { env: { PATH: temporaryFolder() } });
  expect([profileFor("cuda", found), profileFor("cpu", found), profileFor("auto", found)]).toEqual([
    "cuda",
    "cpu",
    "cpu",
  ]);
});
