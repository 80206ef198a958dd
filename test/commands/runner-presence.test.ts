import { afterEach, describe, expect, test } from "bun:test";
import { RunnerPresence } from "../../src/commands/runner-presence.ts";
import { AglError } from "../../src/errors.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";

const stores: SqliteStore[] = [];

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});

function watch(options: { agent?: string; limitSeconds?: number; signal?: AbortSignal } = {}) {
  const store = openStore({ path: ":memory:" });
  stores.push(store);
  const said: string[] = [];
  const presence = new RunnerPresence({
    store,
    agent: options.agent,
    limitSeconds: options.limitSeconds ?? 10,
    say: (line) => said.push(line),
    signal: options.signal ?? new AbortController().signal,
    pollMs: 5,
  });
  return { store, said, presence };
}

describe("a run that needs runners", () => {
  test("waits for one, says once that none is there, and goes on when one is heard of", async () => {
    const { store, said, presence } = watch({ agent: "math" });
    const present = presence.untilPresent();
    await Bun.sleep(50);
    await store.updateWorker("Worker-0", { agent: "math" });
    await present;
    expect(said).toEqual(["waiting: no runner is connected"]);
  });

  test("says which agents are connected when the wanted one is not", async () => {
    const { store, said, presence } = watch({ agent: "math" });
    await store.updateWorker("Worker-0", { agent: "capitals" });
    const present = presence.untilPresent();
    await Bun.sleep(50);
    await store.updateWorker("Worker-1", { agent: "math" });
    await present;
    expect(said).toEqual(['waiting: no runner has agent "math" (those that are connected have "capitals")']);
  });

  test("takes runners that do not name their agent, as Python's", async () => {
    const { store, presence } = watch({ agent: "math" });
    await store.updateWorker("Worker-0", { host: "h" });
    await presence.untilPresent();
  });

  test("ends with a remedy at its limit", async () => {
    const { presence } = watch({ limitSeconds: 0.05 });
    const error = await presence.untilPresent().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AglError);
    expect((error as AglError).message).toBe("no runner is connected, for 0.05 s");
  });

  test("ends when it is stopped", async () => {
    const controller = new AbortController();
    const { presence } = watch({ signal: controller.signal });
    const present = presence.untilPresent().catch((reason: unknown) => reason);
    controller.abort(new Error("stopped"));
    expect(await present).toEqual(new Error("stopped"));
  });

  test("does not count on a worker that was heard of long ago", async () => {
    const { store, said, presence } = watch({ limitSeconds: 0.05 });
    await store.updateWorker("Worker-0", { agent: "math" });
    const late = new RunnerPresence({
      store,
      agent: "math",
      limitSeconds: 0.05,
      say: (line) => said.push(line),
      signal: new AbortController().signal,
      pollMs: 5,
      now: () => Date.now() + 60_000,
    });
    expect(await late.untilPresent().catch((reason: unknown) => reason)).toBeInstanceOf(AglError);
    await presence.untilPresent();
  });
});
