import type { SpanSink } from "../../src/proxy/proxy.ts";
import type { Attempt, Span } from "../../src/protocol/types.ts";

export interface MemorySink extends SpanSink {
  spans: Span[];
  /** Spans per write. */
  writes: number[];
  attempts: Attempt[];
  questions: number;
  /** While set, every call fails with it. */
  broken: Error | null;
}

/** A span sink that keeps everything, and can be away for a while. */
export function createMemorySink(attempts: Partial<Attempt>[] = [{}]): MemorySink {
  const counters = new Map<string, number>();
  const sink: MemorySink = {
    spans: [],
    writes: [],
    questions: 0,
    broken: null,
    attempts: attempts.map((attempt, index) => ({
      rollout_id: "ro-1",
      attempt_id: `at-${index + 1}`,
      sequence_id: index + 1,
      start_time: 0,
      end_time: null,
      status: "running",
      worker_id: null,
      last_heartbeat_time: null,
      metadata: null,
      ...attempt,
    })),
    async queryAttempts(rolloutId) {
      sink.questions += 1;
      if (sink.broken !== null) throw sink.broken;
      const items = sink.attempts.filter((attempt) => attempt.rollout_id === rolloutId);
      return { items, limit: -1, offset: 0, total: items.length };
    },
    async nextSequenceIds(requests) {
      if (sink.broken !== null) throw sink.broken;
      return requests.map(({ rollout_id, attempt_id }) => {
        counters.set(rollout_id, (counters.get(rollout_id) ?? 0) + 1);
        const attempt = sink.attempts.find((item) => item.attempt_id === attempt_id);
        const ended = attempt !== undefined && attempt.status !== "running";
        return {
          sequence_id: counters.get(rollout_id) ?? 0,
          ended_at: ended ? (attempt.end_time ?? 0) : null,
        };
      });
    },
    async addSpans(spans) {
      await Promise.resolve();
      if (sink.broken !== null) throw sink.broken;
      sink.spans.push(...spans);
      sink.writes.push(spans.length);
      return { stored: spans.length, duplicates: 0, rejected: [] };
    },
  };
  return sink;
}
