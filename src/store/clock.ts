/**
 * Unix seconds that grow strictly, in microsecond steps or finer. `Date.now()` alone stands still
 * for a millisecond, so an end could equal its start; a monotonic clock alone misses the steps of
 * the system's clock. Never behind `Date.now()`.
 */
export function createClock(): () => number {
  let offsetMs = performance.timeOrigin;
  let last = 0;
  return () => {
    const wallMs = Date.now();
    let timeMs = offsetMs + performance.now();
    if (timeMs < wallMs || timeMs > wallMs + 2) {
      timeMs = wallMs + 0.999;
      offsetMs = timeMs - performance.now();
    }
    const steppedBack = last - timeMs / 1000 > 1;
    last = steppedBack ? timeMs / 1000 : Math.max(timeMs / 1000, last + 1e-6);
    return last;
  };
}
