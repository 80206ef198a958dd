import type { FingerprintMemory } from "../../chat/answer-reader.ts";
import type { Upstream } from "./upstreams.ts";

/** What each model server calls its configuration. A server with other weights may have another one. */
export class Fingerprints {
  readonly #memories = new Map<string, FingerprintMemory>();
  readonly #maxEntries = 1_000;

  of({ baseUrl, unixSocket, checkpoint }: Upstream): FingerprintMemory {
    const key = JSON.stringify([baseUrl, unixSocket, checkpoint]);
    let memory = this.#memories.get(key);
    if (memory === undefined) {
      memory = {};
      if (this.#memories.size >= this.#maxEntries) this.#memories.clear();
      this.#memories.set(key, memory);
    }
    return memory;
  }
}
