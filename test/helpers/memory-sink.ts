import type { SpanSink } from "../../src/proxy/proxy.ts";
import type { Attempt, AttemptedRollout, Span } from "../../src/protocol/types.ts";

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
    async queryRollouts({ rollout_id_in: wanted }) {
      if (sink.broken !== null) throw sink.broken;
      const latest = new Map(sink.attempts.map((attempt) => [attempt.rollout_id, attempt]));
      const items = [...latest.values()]
        .filter(({ rollout_id }) => wanted?.includes(rollout_id))
        .map((attempt) => rolloutWith(attempt));
      return { items, limit: -1, offset: 0, total: items.length };
    },
    async nextSequenceId(rolloutId) {
      if (sink.broken !== null) throw sink.broken;
      counters.set(rolloutId, (counters.get(rolloutId) ?? 0) + 1);
      return counters.get(rolloutId) ?? 0;
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

function rolloutWith(attempt: Attempt): AttemptedRollout {
  return {
    rollout_id: attempt.rollout_id,
    input: null,
    start_time: 0,
    end_time: null,
    mode: null,
    resources_id: null,
    status: "running",
    config: { timeout_seconds: null, unresponsive_seconds: null, max_attempts: 1, retry_condition: [] },
    metadata: {},
    attempt,
  };
}
