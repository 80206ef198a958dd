import { expect, test } from "bun:test";
import type { RunnerProcess } from "../../src/commands/runner-process.ts";
import { RunnerSupervision } from "../../src/commands/runner-supervision.ts";
import { AglError } from "../../src/errors.ts";

interface Life {
  die(message: string): void;
  stopped: boolean;
}

/** Runners whose lives the test ends by hand; ready at once unless told otherwise. */
function supervise(isReady: (life: number) => boolean = () => true) {
  const lives: Life[] = [];
  const said: string[] = [];
  const endedFor: string[] = [];
  const started: PromiseWithResolvers<Life>[] = Array.from({ length: 9 }, () => Promise.withResolvers());
  const supervision = new RunnerSupervision({
    start: (): RunnerProcess => {
      const died = Promise.withResolvers<AglError>();
      const ready = Promise.withResolvers<void>();
      const life: Life = {
        stopped: false,
        die: (message) => died.resolve(new AglError("agent", message, { remedy: "see the log" })),
      };
      if (isReady(lives.length)) ready.resolve();
      void died.promise.then((error) => ready.reject(error));
      started[lives.length]?.resolve(life);
      lives.push(life);
      return { ready: ready.promise, died: died.promise, stop: async () => void (life.stopped = true) };
    },
    endAttempts: async (reason) => endedFor.push(reason) * 2,
    say: (line) => said.push(line),
    pausesMs: [1, 2, 3],
  });
  return { supervision, lives, said, endedFor, life: (index: number) => started[index]!.promise };
}

test("a process that dies is replaced as often as there are pauses, then the run fails with the last reason", async () => {
  const { supervision, lives, said, endedFor, life } = supervise();
  await supervision.ready;
  for (const index of [0, 1, 2, 3]) (await life(index)).die(`death ${index}`);
  const error = await supervision.failed.catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    message: "death 3; they were started again 3 times before",
    remedy: "see the log",
  });
  expect(lives).toHaveLength(4);
  expect(endedFor).toEqual(["death 0", "death 1", "death 2"]);
  expect(said[0]).toBe("death 0; 2 running attempts failed; starting again in 0.001 s (1 of 3)");
  expect(said).toHaveLength(3);
});

test("a first start that fails is not repeated", async () => {
  const { supervision, lives, said, life } = supervise(() => false);
  (await life(0)).die("no such agent");
  await expect(supervision.ready).rejects.toThrow("no such agent");
  await expect(supervision.failed).rejects.toThrow("no such agent");
  expect(lives).toHaveLength(1);
  expect(said).toEqual([]);
});

test("a later start that fails counts as a death", async () => {
  const { supervision, lives, life } = supervise((index) => index === 0);
  for (const index of [0, 1, 2, 3]) (await life(index)).die(`death ${index}`);
  await expect(supervision.failed).rejects.toThrow("death 3");
  expect(lives).toHaveLength(4);
});

test("nothing is started after the stop", async () => {
  const { supervision, lives, life } = supervise();
  (await life(0)).die("at the end");
  await supervision.stop();
  await Bun.sleep(20);
  expect(lives.length === 1 || lives.every(({ stopped }) => stopped)).toBe(true);
  expect(lives.at(-1)?.stopped).toBe(true);
});
