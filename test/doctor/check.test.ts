import { expect, test } from "bun:test";
import { type Check, ok, runChecks, warning } from "../../src/doctor/check.ts";
import { AglError } from "../../src/errors.ts";

const never = new AbortController().signal;
const check = (name: string, run: Check["run"], limitMs = 10_000): Check => ({ name, limitMs, run });

test("findings come in the order of the checks, whichever is done first", async () => {
  const shown: string[] = [];
  const first = Promise.withResolvers<void>();
  const results = await runChecks(
    [
      check("slow", async () => {
        await first.promise;
        return ok("at last");
      }),
      check("quick", () => {
        first.resolve();
        return [ok("one"), warning("two", "do something")];
      }),
    ],
    never,
    ({ check: name, message }) => shown.push(`${name}: ${message}`),
  );
  expect(shown).toEqual(["slow: at last", "quick: one", "quick: two"]);
  expect(results[2]).toEqual({ check: "quick", status: "warning", message: "two", remedy: "do something" });
});

test("a check that never ends is a problem after its limit, and is told to end", async () => {
  let told = false;
  const hangs = check(
    "hangs",
    (signal) => {
      signal.addEventListener("abort", () => (told = true));
      return new Promise(() => {});
    },
    20,
  );
  const results = await runChecks([hangs, check("works", () => ok("fine"))], never);
  expect(results.map(({ status }) => status)).toEqual(["problem", "ok"]);
  expect(results[0]?.message).toBe("gave no answer within 0.02 s");
  expect(told).toBe(true);
});

test("what a check throws is a problem, with its remedy, and harms no other", async () => {
  const results = await runChecks(
    [
      check("expected", () => {
        throw new AglError("environment", "no uv", { remedy: "install uv" });
      }),
      check("bug", async () => {
        throw new TypeError("x is undefined");
      }),
      check("works", () => ok("fine")),
    ],
    never,
  );
  expect(results[0]).toEqual({
    check: "expected",
    status: "problem",
    message: "no uv",
    remedy: "install uv",
  });
  expect(results[1]?.message).toBe("could not be checked: x is undefined");
  expect(results[2]?.status).toBe("ok");
});

test("a stop ends all of them", async () => {
  const stop = new AbortController();
  const hangs = check("hangs", () => new Promise(() => {}));
  const running = runChecks([hangs, hangs], stop.signal);
  stop.abort(new Error("stopped"));
  await expect(running).rejects.toThrow("stopped");
});
