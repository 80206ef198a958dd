import { expect, test } from "bun:test";
import fc from "fast-check";
import { StoreRequestError } from "../../src/errors.ts";
import type { Attempt, AttemptedRollout, Rollout } from "../../src/protocol/types.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { SqliteStore } from "../../src/store/sqlite-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { createTestClock } from "../helpers/test-clock.ts";
import { anyEvent, inWords } from "./lifecycle-events.ts";
import type { Event } from "./lifecycle-events.ts";
import { LifecycleModel, Refusal } from "./lifecycle-model.ts";

const began = 1_766_538_000;

/** What the model answers to an event. */
function tellModel(model: LifecycleModel, event: Event): unknown {
  switch (event.kind) {
    case "enqueue":
      return model.enqueue(event.config);
    case "start":
      return model.start(event.config, event.worker);
    case "dequeue":
      return model.dequeue(event.limit, event.worker);
    case "startAttempt":
      return model.startAttempt(event.rollout, event.worker);
    case "updateRollout":
      return model.updateRollout(event.rollout, event.change);
    case "updateAttempt": {
      const { beat, ...change } = event.change;
      const absolute = beat === undefined ? change : { ...change, beat: model.time - beat };
      return model.updateAttempt(event.rollout, event.attempt, absolute);
    }
    case "spans":
      return model.addSpans(event.arrivals).toSorted();
    case "nextSequence":
      return model.nextSequence(event.rollout);
    case "heartbeat":
      return model.heartbeat(event.worker, event.stats);
    case "finished":
      return model.finished(event.rollouts);
    case "pass":
      model.time += event.seconds;
  }
}

/** The store behind the model's numbers: rollouts and attempts are counted as they are made. */
class NumberedStore {
  readonly #clock = createTestClock(began);
  readonly #store: SqliteStore;
  readonly #ids: string[] = [];
  readonly #attempts = new Map<string, string[]>();

  constructor(debounce: number) {
    this.#store = openStore({ path: ":memory:", scanDebounceSeconds: debounce, now: this.#clock.now });
  }

  async tell(event: Event): Promise<unknown> {
    switch (event.kind) {
      case "enqueue":
        return this.#note((await this.#store.enqueueRollouts([{ input: 1, config: event.config }]))[0]!);
      case "start": {
        const { config, worker } = event;
        return this.#note(await this.#store.startRollout({ input: 1, config, worker_id: worker }));
      }
      case "dequeue": {
        const { limit, worker } = event;
        const claimed = await this.#store.dequeueRollouts({ limit, worker_id: worker });
        return claimed.map((rollout) => this.#note(rollout));
      }
      case "startAttempt":
        this.#note(await this.#store.startAttempt(this.#id(event.rollout), event.worker));
        return;
      case "updateRollout":
        await this.#store.updateRollout(this.#id(event.rollout), event.change);
        return;
      case "updateAttempt": {
        const { status, worker, beat } = event.change;
        const id = event.attempt === "latest" ? "latest" : this.#attemptId(event.rollout, event.attempt);
        await this.#store.updateAttempt(this.#id(event.rollout), id, {
          ...(status === undefined ? {} : { status }),
          ...(worker === undefined ? {} : { worker_id: worker }),
          ...(beat === undefined ? {} : { last_heartbeat_time: Math.floor(this.#clock.now()) - beat }),
        });
        return;
      }
      case "spans":
        return this.#addSpans(event.arrivals);
      case "nextSequence":
        return this.#store.nextSequenceId(this.#id(event.rollout), "any");
      case "heartbeat": {
        const stats = event.stats === null ? undefined : { n: event.stats };
        await this.#store.updateWorker(event.worker, stats);
        return;
      }
      case "finished": {
        const rollout_ids = event.rollouts.map((number) => this.#id(number));
        const found = await this.#store.waitForRollouts({ rollout_ids, timeout: 0 });
        return found.map(({ rollout_id }) => this.#ids.indexOf(rollout_id) + 1);
      }
      case "pass":
        this.#clock.advance(event.seconds);
    }
  }

  async rollouts() {
    const { items } = await this.#store.queryRollouts({});
    return Promise.all(
      items.map(async (rollout) => {
        const attempts = (await this.#store.queryAttempts(rollout.rollout_id)).items;
        if ("attempt" in rollout) expect(rollout.attempt).toEqual(attempts.at(-1)!);
        return {
          status: rollout.status,
          start: seconds(rollout.start_time),
          end: seconds(rollout.end_time),
          attempts: attempts.map(attemptInNumbers),
        };
      }),
    );
  }

  async workers() {
    const { items } = await this.#store.queryWorkers({});
    return Object.fromEntries(
      items.map(({ worker_id, ...worker }) => [
        worker_id,
        {
          status: worker.status,
          stats: worker.heartbeat_stats?.["n"] ?? null,
          beat: seconds(worker.last_heartbeat_time),
          dequeued: seconds(worker.last_dequeue_time),
          busy: seconds(worker.last_busy_time),
          idle: seconds(worker.last_idle_time),
          current: this.#current(worker.current_rollout_id, worker.current_attempt_id),
        },
      ]),
    );
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  /** The number of a rollout whose newest attempt may be new. */
  #note(rollout: Rollout | AttemptedRollout): number {
    const { rollout_id: id } = rollout;
    if (!this.#ids.includes(id)) this.#ids.push(id);
    const attempts = this.#attempts.get(id) ?? [];
    this.#attempts.set(id, attempts);
    if ("attempt" in rollout) attempts.push(rollout.attempt.attempt_id);
    return this.#ids.indexOf(id) + 1;
  }

  async #addSpans(arrivals: Extract<Event, { kind: "spans" }>["arrivals"]): Promise<string[]> {
    const spans = arrivals.map(({ rollout, attempt, span, sequence }) =>
      sampleSpan({
        rollout_id: this.#id(rollout),
        attempt_id: this.#attemptId(rollout, attempt),
        span_id: `000000000000000${span}`,
        sequence_id: sequence,
      }),
    );
    if (spans.length === 1) {
      const added = await this.#store.addSpan(spans[0]!).catch(refusalOf);
      return [typeof added === "string" ? added : added === null ? "duplicate" : "stored"];
    }
    const { stored, duplicates, rejected } = await this.#store.addSpans(spans);
    const refusals = rejected.map(({ detail }) => refusalInWords(detail));
    return [...Array(duplicates).fill("duplicate"), ...Array(stored).fill("stored"), ...refusals].toSorted();
  }

  #id(rollout: number): string {
    return this.#ids[rollout - 1] ?? `ro-unknown-${rollout}`;
  }

  #attemptId(rollout: number, attempt: number): string {
    return this.#attempts.get(this.#id(rollout))?.[attempt - 1] ?? "at-unknown";
  }

  #current(rolloutId: string | null, attemptId: string | null): [number, number] | null {
    if (rolloutId === null && attemptId === null) return null;
    const attempts = this.#attempts.get(rolloutId ?? "") ?? [];
    return [this.#ids.indexOf(rolloutId ?? "") + 1, attempts.indexOf(attemptId ?? "") + 1];
  }
}

function attemptInNumbers(attempt: Attempt) {
  return {
    number: attempt.sequence_id,
    status: attempt.status,
    start: seconds(attempt.start_time),
    end: seconds(attempt.end_time),
    beat: seconds(attempt.last_heartbeat_time),
    worker: attempt.worker_id,
  };
}

const seconds = (time: number | null) => (time === null ? null : Math.floor(time));

function refusalOf(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  if (error instanceof StoreRequestError && error.status === 404) return refusalInWords(error.message);
  throw error;
}

function refusalInWords(detail: string): string {
  if (/^Rollout \S+ not found$/.test(detail)) return "unknown rollout";
  return detail.endsWith("has no attempts") ? "no attempts" : "unknown attempt";
}

async function answer(call: () => unknown): Promise<unknown> {
  try {
    return (await call()) ?? null;
  } catch (error) {
    return refusalOf(error);
  }
}

interface History {
  debounce: number;
  events: Event[];
}

/** Shows the order of the queue. */
const dequeueAll: Event = { kind: "dequeue", limit: 1_000, worker: null };

class Parted extends Error {
  readonly steps: Event[];

  constructor(steps: Event[], cause: unknown) {
    super((cause as Error).message);
    this.steps = steps;
  }
}

/** Plays the events to store and model; throws `Parted` after the first that leaves them different. */
async function play({ debounce, events }: History): Promise<void> {
  const model = new LifecycleModel({ time: began, debounce });
  const store = new NumberedStore(debounce);
  const played: Event[] = [];
  try {
    for (const event of [...events, dequeueAll]) {
      played.push(event);
      await playOne(event, model, store);
    }
  } catch (error) {
    throw new Parted(played, error);
  } finally {
    await store.close();
  }
}

async function playOne(event: Event, model: LifecycleModel, store: NumberedStore): Promise<void> {
  const expected = await answer(() => tellModel(model, event));
  expect({ answer: await answer(() => store.tell(event)) }).toEqual({ answer: expected });
  // Looking scans: after time has passed, the next event must be the first to do so, or not to.
  if (event.kind === "pass") return;
  model.scanIfDue();
  expect({ rollouts: await store.rollouts() }).toEqual({ rollouts: model.rollouts });
  expect({ workers: await store.workers() }).toEqual({ workers: model.workers });
}

function report(run: fc.RunDetails<[History]>): void {
  if (!run.failed) return;
  const { steps, message } = run.errorInstance as Parted;
  const { debounce } = run.counterexample![0];
  const told = [
    `after these events store (received) and model (expected) differ; ${debounce} s between scans:`,
    ...steps.map((event, index) => `${index + 1}. ${inWords(event)}`),
    "",
    message,
    "",
    `seed ${run.seed}, path "${run.counterexamplePath}", ${run.numShrinks} shrinks`,
  ];
  throw new Error(told.join("\n"));
}

// Sections 5.1 to 5.9; S-1 to S-20, H-1 to H-6, K-1 to K-8, N-1 to N-3, P-1 to P-5, E-17
test("random histories leave rollouts, attempts, queue and workers as the model has them, after every event", async () => {
  const history: fc.Arbitrary<History> = fc.record({
    debounce: fc.constantFrom(0, 10),
    events: fc.array(anyEvent, { minLength: 1, maxLength: 60, size: "max" }),
  });
  await fc.assert(
    fc.asyncProperty(history, (random) => play(random)),
    { numRuns: 500, reporter: report },
  );
}, 60_000);
