import { expect, test } from "bun:test";
import { join } from "node:path";
import { checkCalculator } from "../../src/doctor/calculator.ts";
import { childEnvironment } from "../../src/engine/child-environment.ts";
import { executable } from "../helpers/executable.ts";
import { processesWith } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const program = join(import.meta.dir, "..", "helpers", "fake-calculator.ts");

function check(script: string, startLimitMs = 10_000) {
  const uvx = executable(temporaryFolder(), "uvx", script);
  return checkCalculator({
    server: { command: "uvx", args: ["mcp-server-calculator@0.2.1"] },
    uvx: [uvx],
    environment: childEnvironment(),
    startLimitMs,
    signal: new AbortController().signal,
  });
}

test("a calculator that starts offline and knows 2+2 is fine, and does not stay", async () => {
  // Only `uvx --offline …` is ever run: no check needs the network.
  const finding = await check(
    `test "$1" = --offline || exit 9\nexec "${process.execPath}" "${program}" fine`,
  );
  expect(finding.status).toBe("ok");
  expect(finding.message).toMatch(/^started and answered 2\+2 after \d+\.\d s$/);
  expect(processesWith(`${program}\0fine`)).toEqual([]);
});

test("one that is not in uv's cache is a warning with how to get it there", async () => {
  const finding = await check(
    `echo "Because mcp-server-calculator was not found in the cache and you require it, your requirements are unsatisfiable." >&2
     echo "hint: Packages were unavailable because the network was disabled." >&2
     exit 1`,
  );
  expect(finding.status).toBe("warning");
  expect(finding.message).toBe("it is not in uv's cache yet, and is fetched on first use");
  expect(finding.remedy).toContain("uvx mcp-server-calculator@0.2.1");
});

test("one that errs, dies or does not come up is a problem that says so", async () => {
  const errs = await check(`exec "${process.execPath}" "${program}" wrong`);
  expect(errs).toMatchObject({ status: "problem", message: '2+2 is "5" for it' });
  const dies = await check(`echo "ImportError: cannot import name mcp" >&2; exit 1`);
  expect(dies.status).toBe("problem");
  expect(dies.message).toContain("ImportError: cannot import name mcp");
  const hangs = await check("exec sleep 600", 200);
  expect(hangs.message).toContain("did not come up within 0.2 s");
});

test("without uvx the remedy is to install uv", async () => {
  const finding = await checkCalculator({
    server: { command: "uvx", args: ["mcp-server-calculator@0.2.1"] },
    uvx: undefined,
    environment: { PATH: temporaryFolder() },
    startLimitMs: 1_000,
    signal: new AbortController().signal,
  });
  expect(finding).toMatchObject({ status: "problem" });
  expect(finding.remedy).toContain("pip install uv");
});
