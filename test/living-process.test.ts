import { expect, test } from "bun:test";
import { isRunning, processState } from "../src/living-process.ts";
import { until } from "./helpers/processes.ts";

test("a process lives until it is dead, with the same start all the time", () => {
  const own = processState(process.pid);
  expect(own).toEqual({ ended: false, started: expect.any(Number) });
  expect(processState(process.pid)).toEqual(own);
  expect(isRunning(process.pid)).toBe(true);
  expect(isRunning(2 ** 22 + 1)).toBe(false);
});

// A container whose first process waits for nobody: the killed store's file was in use for ever.
test("one that was killed and that its parent never waits for does not run", async () => {
  const parent = Bun.spawn(["sh", "-c", "sleep 60 & echo $!; exec sleep 60"], { stdout: "pipe" });
  try {
    const { value } = await parent.stdout.getReader().read();
    const pid = Number(new TextDecoder().decode(value));
    await until("sh has become one that waits for nobody", async () =>
      (await Bun.file(`/proc/${parent.pid}/comm`).text()).startsWith("sleep"),
    );
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
    await until("it has ended", () => processState(pid)?.ended === true);
    expect(process.kill(pid, 0)).toBe(true);
    expect(isRunning(pid)).toBe(false);
  } finally {
    parent.kill("SIGKILL");
    await parent.exited;
  }
});
