import { expect, setSystemTime, test } from "bun:test";
import { createClock } from "../../src/store/clock.ts";

// D-2, T-30
test("the clock grows with every look and is never behind the system's", () => {
  const now = createClock();
  let last = 0;
  for (let look = 0; look < 20_000; look += 1) {
    const before = Date.now() / 1000;
    const time = now();
    expect(time).toBeGreaterThan(last);
    expect(time).toBeGreaterThanOrEqual(before);
    last = time;
  }
  expect(last - Date.now() / 1000).toBeLessThan(0.1);
});

test("it follows when the system's clock is set", () => {
  const now = createClock();
  try {
    for (const hours of [5, -7, 0]) {
      const set = Date.now() + hours * 3_600_000;
      setSystemTime(new Date(set));
      expect(Math.abs(now() - set / 1000)).toBeLessThan(1);
    }
  } finally {
    setSystemTime();
  }
});
