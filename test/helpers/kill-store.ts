import { Database } from "bun:sqlite";
import { expect } from "bun:test";
import { openStoreReader } from "../../src/store/store-reader.ts";
import { type ServedStore, startServedStore } from "./served-store.ts";
import { type Acknowledged, StoreLoad } from "./store-load.ts";

/**
 * Kills the process of one store file again and again in the middle of its writes. After each restart the file is
 * whole and holds what was acknowledged; at the end, all of it, and no rollout was handed out twice.
 */
export async function killAgainAndAgain(path: string, rounds: number): Promise<number> {
  const acknowledged: Acknowledged[] = [];
  const handedOut: string[] = [];
  let store: ServedStore = await startServedStore(path);
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const load = new StoreLoad(store.url);
      const afterMs = Math.random() * 250;
      const running = load.run();
      await Promise.race([running, Bun.sleep(afterMs)]);
      load.expectEnd();
      await Promise.all([running, store.end("SIGKILL")]);
      store = await startServedStore(path);
      const when = `round ${round}, killed after ${Math.round(afterMs)} ms`;
      expect({ when, integrity: integrityOf(path) }).toEqual({ when, integrity: "ok" });
      expect({ when, lost: await lost(path, load.acknowledged) }).toEqual({ when, lost: [] });
      acknowledged.push(...load.acknowledged);
      handedOut.push(...load.handedOut);
    }
    expect(await lost(path, acknowledged)).toEqual([]);
    expect(new Set(handedOut).size).toBe(handedOut.length);
    expect(await store.end("SIGTERM")).toBe(0);
    return acknowledged.length;
  } finally {
    await store.end("SIGKILL");
  }
}

function integrityOf(path: string): unknown {
  const db = new Database(path, { readonly: true });
  const findings = db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").all();
  db.close();
  return findings.map(({ integrity_check }) => integrity_check).join("\n");
}

async function lost(path: string, acknowledged: Acknowledged[]): Promise<string[]> {
  const reader = openStoreReader(path);
  const missing: string[] = [];
  for (const { what, holds } of acknowledged) if (!(await holds(reader))) missing.push(what);
  await reader.close();
  return missing;
}
