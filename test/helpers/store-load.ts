import type { Span } from "../../src/protocol/types.ts";
import type { StoreReading } from "../../src/store/store-reader.ts";
import { sampleSpan } from "./sample-span.ts";

/** Something that the store has acknowledged, and how to see that it still holds. */
export interface Acknowledged {
  what: string;
  holds(store: StoreReading): Promise<boolean>;
}

type Post = (path: string, body: unknown) => Promise<any>;

/**
 * Writers that each send one request after another until the store is gone. What was acknowledged is noted when
 * its answer has come in whole, and not before.
 */
export class StoreLoad {
  readonly acknowledged: Acknowledged[] = [];
  /** Rollouts that were handed out, which must never happen twice. */
  readonly handedOut: string[] = [];
  readonly #post: Post;
  #over = false;

  constructor(url: string) {
    this.#post = async (path, body) => {
      const response = await fetch(`${url}/v1/agl${path}`, { method: "POST", body: JSON.stringify(body) });
      const answer = await response.json();
      if (!response.ok) throw new Error(`${response.status} for ${path}: ${JSON.stringify(answer)}`);
      return answer;
    };
  }

  /** Resolves when every writer met the end of the store; an answer that is an error fails. */
  async run(): Promise<void> {
    const writers = [
      () => this.#enqueue(),
      () => this.#enqueue(),
      () => this.#runRollout(),
      () => this.#runRollout(),
      () => this.#takeRollout("w-1"),
      () => this.#takeRollout("w-2"),
      () => this.#addResources(),
    ];
    await Promise.all(writers.map((write) => this.#repeat(write)));
  }

  /** Before the store is killed: from then on, a connection that breaks is no fault. */
  expectEnd(): void {
    this.#over = true;
  }

  async #repeat(write: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        await write();
      } catch (error) {
        if (this.#over && !/^\d{3} for /.test((error as Error).message)) return;
        throw error;
      }
    }
  }

  #note(what: string, holds: Acknowledged["holds"]): void {
    this.acknowledged.push({ what, holds });
  }

  async #enqueue(): Promise<void> {
    const inputs = Array.from({ length: 1 + (this.acknowledged.length % 5) }, () => crypto.randomUUID());
    const rollouts = await this.#post("/queues/rollouts/enqueue", {
      rollouts: inputs.map((input) => ({ input })),
    });
    for (const [index, { rollout_id }] of rollouts.entries()) {
      this.#note(`rollout ${rollout_id}`, async (store) => {
        return (await store.getRollout(rollout_id))?.input === inputs[index];
      });
    }
  }

  async #runRollout(): Promise<void> {
    const { rollout_id, attempt } = await this.#post("/rollouts", { input: 1 });
    const ids = { rollout_id, attempt_id: attempt.attempt_id };
    const spans = Array.from({ length: 8 }, (_, n) =>
      sampleSpan({ ...ids, sequence_id: n + 1, attributes: { text: crypto.randomUUID().repeat(n * 20) } }),
    );
    await this.#post("/spans", spans[0]);
    this.#noteSpans(ids, spans.slice(0, 1));
    await this.#post("/spans/batch", { spans: spans.slice(1) });
    this.#noteSpans(ids, spans.slice(1));
    const { sequence_id } = await this.#post("/spans/next", ids);
    if (sequence_id !== 9) throw new Error(`the number after 8 spans is ${sequence_id}`);
    await this.#finish(ids);
  }

  async #takeRollout(worker_id: string): Promise<void> {
    const [rollout] = await this.#post("/queues/rollouts/dequeue", { worker_id });
    if (rollout === undefined) return;
    const { rollout_id, attempt } = rollout;
    this.handedOut.push(rollout_id);
    this.#note(`attempt of ${rollout_id}`, async (store) => {
      const { items } = await store.queryAttempts(rollout_id);
      return items.some(({ attempt_id }) => attempt_id === attempt.attempt_id);
    });
    await this.#finish({ rollout_id, attempt_id: attempt.attempt_id });
  }

  async #finish({ rollout_id, attempt_id }: { rollout_id: string; attempt_id: string }): Promise<void> {
    await this.#post(`/rollouts/${rollout_id}/attempts/${attempt_id}`, { status: "succeeded" });
    this.#note(`end of ${rollout_id}`, async (store) => {
      return (await store.getRollout(rollout_id))?.status === "succeeded";
    });
  }

  async #addResources(): Promise<void> {
    await this.#post("/resources", {
      main: { resource_type: "prompt_template", template: "{q}", engine: "f-string" },
    });
  }

  #noteSpans(ids: { rollout_id: string; attempt_id: string }, spans: Span[]): void {
    this.#note(`${spans.length} spans of ${ids.rollout_id}`, async (store) => {
      const { items } = await store.querySpans(ids);
      const stored = new Map(items.map((span) => [span.span_id, span]));
      return spans.every((span) => Bun.deepEquals({ ...stored.get(span.span_id) }, span));
    });
  }
}
