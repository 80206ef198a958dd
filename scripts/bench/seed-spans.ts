import { openStore } from "../../src/store/sqlite-store.ts";
import type { Span } from "../../src/protocol/types.ts";
import type { AttemptName } from "./closed-loop.ts";
import { newSpanId, spanBody } from "./span-bodies.ts";

const spansPerAttempt = 20;

/** Fills a store's file with attempts of 20 small spans; returns some of its attempts, from all over the file. */
export async function seedSpans(job: { db: string; spans: number; samples: number }): Promise<AttemptName[]> {
  const store = openStore({ path: job.db });
  const attempts: AttemptName[] = [];
  const wanted = Math.max(1, Math.ceil(job.spans / spansPerAttempt));
  while (attempts.length < wanted) {
    const some = Math.min(50, wanted - attempts.length);
    const started = await Promise.all(
      Array.from({ length: some }, () => store.startRollout({ input: "seed" })),
    );
    const names = started.map(({ rollout_id, attempt }) => ({
      rolloutId: rollout_id,
      attemptId: attempt.attempt_id,
    }));
    await store.addSpans(names.flatMap(spansFor));
    attempts.push(...names);
  }
  await store.close();
  const step = Math.max(1, Math.floor(attempts.length / job.samples));
  return attempts.filter((_, index) => index % step === 0).slice(0, job.samples);
}

function spansFor(attempt: AttemptName): Span[] {
  return Array.from({ length: spansPerAttempt }, (_, index) =>
    JSON.parse(
      spanBody({
        ...attempt,
        sequenceId: index + 1,
        spanId: newSpanId(),
        name: "step",
        attributes: `{"step":${index},"text":"some words about what was done here"}`,
      }),
    ),
  );
}
