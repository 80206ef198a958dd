import { expect, test } from "bun:test";
import { Arrivals } from "../../../src/proxy/recording/arrivals.ts";
import { createMemorySink } from "../../helpers/memory-sink.ts";

const ids = { rolloutId: "ro-1", attemptId: "at-1" };

function start() {
  const sink = createMemorySink();
  const groups: number[] = [];
  const { nextSequenceIds } = sink;
  sink.nextSequenceIds = (requests) => {
    groups.push(requests.length);
    return nextSequenceIds(requests);
  };
  return { groups, arrivals: new Arrivals({ store: sink, isAway: () => false }) };
}

test("calls that come soon after each other are asked about together, in their order", async () => {
  const { arrivals, groups } = start();
  const announced = [1, 2, 3].map(() => arrivals.announce(ids));
  expect(groups).toEqual([]);
  const numbers = (await Promise.all(announced)).map(({ sequenceId }) => sequenceId);
  expect(numbers).toEqual([1, 2, 3]);
  expect(groups).toEqual([3]);
});

test("the store is asked before an answer goes on: what the agent numbers after it comes later", async () => {
  const { arrivals, groups } = start();
  const first = arrivals.announce(ids);
  arrivals.askNow();
  expect(groups).toEqual([1]);
  const second = arrivals.announce(ids);
  expect((await first).sequenceId).toBe(1);
  expect((await second).sequenceId).toBe(2);
  expect(groups).toEqual([1, 1]);
});

test("asking at once when nothing waits asks nothing", () => {
  const { arrivals, groups } = start();
  arrivals.askNow();
  expect(groups).toEqual([]);
});
