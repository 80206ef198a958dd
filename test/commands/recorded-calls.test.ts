import { expect, test } from "bun:test";
import { describeRecordedCalls, hasRecordingTrouble } from "../../src/commands/recorded-calls.ts";

const none = {
  calls: 12,
  failed: 0,
  abortedByClient: 0,
  repeated: 0,
  stale: 0,
  callsLost: 0,
  spansRejected: 0,
  spooledCalls: 0,
  refused: { bad_request: 0, recording_backlog: 0 },
};

test("calls in order are only counted", () => {
  expect(describeRecordedCalls(none)).toBe("calls: 12");
  expect(hasRecordingTrouble(none)).toBe(false);
});

test("whatever is not in order has its count", () => {
  const some = {
    ...none,
    failed: 2,
    repeated: 2,
    spooledCalls: 5,
    refused: { bad_request: 1, recording_backlog: 5 },
  };
  expect(describeRecordedCalls(some)).toBe(
    "calls: 12, 2 failed, 2 tried again by their client, 5 still on disk for the store, 6 refused",
  );
  expect(hasRecordingTrouble(some)).toBe(true);
});
