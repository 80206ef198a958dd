/** Seconds that grow by a microsecond per look, and by `advance` on demand. */
export function createTestClock(start = 1_766_538_000): {
  now: () => number;
  advance(seconds: number): void;
} {
  let time = start;
  return {
    now: () => (time += 1e-6),
    advance(seconds) {
      time += seconds;
    },
  };
}
