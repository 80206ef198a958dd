/** Collects seconds by phase; a phase timed twice is summed. */
export class Stopwatch {
  readonly seconds: Record<string, number>;

  constructor(seconds: Record<string, number> = {}) {
    this.seconds = seconds;
  }

  async time<Result>(phase: string, work: () => Promise<Result>): Promise<Result> {
    const started = performance.now();
    try {
      return await work();
    } finally {
      const taken = (performance.now() - started) / 1000;
      this.seconds[phase] = Math.round(((this.seconds[phase] ?? 0) + taken) * 100) / 100;
    }
  }
}
