export interface Estimate {
  mean: number;
  n: number;
  /** 95 % interval of the mean. */
  low: number;
  high: number;
}

const z = 1.959963984540054;

/**
 * Mean with its 95 % interval: Wilson's score interval (Wilson 1927) when every reward is 0 or 1, which stays
 * sensible near 0 and 1, else the normal interval of the mean.
 */
export function estimateMean(rewards: readonly number[]): Estimate {
  const n = rewards.length;
  if (n === 0) return { mean: Number.NaN, n, low: Number.NaN, high: Number.NaN };
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / n;
  const [low, high] = rewards.every((reward) => reward === 0 || reward === 1)
    ? wilson(mean, n)
    : normal(rewards, mean);
  return { mean, n, low, high };
}

function wilson(mean: number, n: number): [number, number] {
  const scale = 1 + (z * z) / n;
  const center = (mean + (z * z) / (2 * n)) / scale;
  const half = (z / scale) * Math.sqrt((mean * (1 - mean)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, center - half), Math.min(1, center + half)];
}

function normal(rewards: readonly number[], mean: number): [number, number] {
  const n = rewards.length;
  if (n < 2) return [mean, mean];
  const variance = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / (n - 1);
  const half = z * Math.sqrt(variance / n);
  return [mean - half, mean + half];
}
