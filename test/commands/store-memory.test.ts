import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { startServedStore } from "../helpers/served-store.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

test("a store in memory serves like any other, knows nothing of its neighbour, and leaves no file", async () => {
  const cwd = temporaryFolder();
  const [one, other] = await Promise.all([
    startServedStore(":memory:", { cwd }),
    startServedStore(":memory:", { cwd }),
  ]);
  const dequeued = async (url: string) => {
    const answer = await fetch(`${url}/v1/agl/queues/rollouts/dequeue`, { method: "POST", body: "{}" });
    return ((await answer.json()) as unknown[]).length;
  };
  const rollouts = [{ input: { x: 1 } }];
  const answer = await fetch(`${one.url}/v1/agl/queues/rollouts/enqueue`, {
    method: "POST",
    body: JSON.stringify({ rollouts }),
  });
  expect(answer.status).toBe(201);
  expect(await dequeued(other.url)).toBe(0);
  expect(await dequeued(one.url)).toBe(1);
  expect(await Promise.all([one.end("SIGTERM"), other.end("SIGTERM")])).toEqual([0, 0]);
  expect(readdirSync(cwd)).toEqual([]);
});
