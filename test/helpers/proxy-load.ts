import type { SqliteStore } from "../../src/store/sqlite-store.ts";
import type { StoreApi } from "../../src/protocol/store-api.ts";

interface LoadedAttempt {
  rolloutId: string;
  attemptId: string;
  /** Names of the calls that were answered to the end. */
  completed: string[];
  /** Of these, the ones before a flush that was answered with 204. */
  acknowledged: string[];
}

/** Agents that call a proxy one call after the other, plain and streamed, and flush now and then. */
export class ProxyLoad {
  readonly attempts: LoadedAttempt[] = [];
  readonly #store: StoreApi;
  readonly #url: string;
  #stopped = false;

  /** The address of the proxy, up to `/v1`. */
  constructor(store: StoreApi, url: string) {
    this.#store = store;
    this.#url = url.replace(/\/v1$/, "");
  }

  /** The proxy is about to die: the first call that fails ends its agent. */
  expectEnd(): void {
    this.#stopped = true;
  }

  async run(agents: number, calls: number): Promise<void> {
    await Promise.all(Array.from({ length: agents }, () => this.#agent(calls)));
  }

  async #agent(calls: number): Promise<void> {
    const { rollout_id: rolloutId, attempt } = await this.#store.startRollout({ input: null });
    const loaded: LoadedAttempt = {
      rolloutId,
      attemptId: attempt.attempt_id,
      completed: [],
      acknowledged: [],
    };
    this.attempts.push(loaded);
    await this.again(loaded, calls);
  }

  async again(loaded: LoadedAttempt, calls: number): Promise<void> {
    const root = `${this.#url}/rollout/${loaded.rolloutId}/attempt/${loaded.attemptId}`;
    try {
      for (let call = 0; call < calls; call += 1) {
        const user = `${loaded.attemptId}-${loaded.completed.length}`;
        const body = { model: "agent-model", messages: [], user, stream: call % 2 === 1 };
        await answer(`${root}/v1/chat/completions`, body);
        loaded.completed.push(user);
        if (call % 3 === 2) await this.#flush(root, loaded);
      }
    } catch (error) {
      if (!this.#stopped) throw error;
    }
  }

  async #flush(root: string, loaded: LoadedAttempt): Promise<void> {
    const names = [...loaded.completed];
    const { status } = await fetch(`${root}/flush`, { method: "POST" });
    if (status === 204) loaded.acknowledged = names;
  }
}

async function answer(url: string, body: object): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${text}`);
}

/** Names of the calls that the store holds of an attempt, in their order. */
export async function storedNames(store: Pick<SqliteStore, "querySpans">, rolloutId: string) {
  const { items } = await store.querySpans({ rollout_id: rolloutId, name: "raw_gen_ai_request" });
  return items.map(({ attributes }) => String(attributes["llm.hosted_vllm.user"]));
}
