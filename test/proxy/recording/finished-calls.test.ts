import { expect, test } from "bun:test";
import { FinishedCalls } from "../../../src/proxy/recording/finished-calls.ts";

test("calls are written down in their order, soon and not at once, with turns for others between", async () => {
  const finished = new FinishedCalls();
  const written: number[] = [];
  const before: number[] = [];
  for (let call = 0; call < 40; call += 1) finished.add(() => void written.push(call));
  expect(written).toEqual([]);
  while (written.length < 40) {
    before.push(written.length);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(written).toEqual(Array.from({ length: 40 }, (_, call) => call));
  expect(before).toContain(16);
  finished.add(() => void written.push(40));
  await Bun.sleep(20);
  expect(written).toHaveLength(41);
});
