import { messageOf } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import type { Span } from "../../protocol/types.ts";
import type { Spool } from "./spool.ts";
import type { SpoolRecord } from "./spool-records.ts";

export interface WaitingCall {
  attempt: string;
  spans: Span[];
  /** About how much memory it holds. */
  bytes: number;
}

/** The calls that one write takes along. */
export interface Batch {
  calls: WaitingCall[];
  onDisk: boolean;
}

export interface BacklogOptions {
  log: Logger;
  spool: Spool | undefined;
  maxCalls: number;
  maxBytes: number;
  /** A call that the store has got is on disk a second time. */
  onTwice: (attempt: string) => void;
}

const maxSpilled = 200;

/**
 * Calls that wait for the store, first come, first served: in memory, or on disk when the store is away. While
 * anything is on disk, what is newer goes there, too, so that calls keep their order.
 */
export class Backlog {
  readonly #options: BacklogOptions;
  readonly #waiting: WaitingCall[] = [];
  #bytes = 0;
  #spilling: Promise<void> | undefined;

  constructor(options: BacklogOptions) {
    this.#options = options;
  }

  statistics() {
    const { spool } = this.#options;
    return {
      waitingCalls: this.#waiting.length,
      waitingBytes: this.#bytes,
      spooledCalls: spool?.calls ?? 0,
      spooledBytes: spool?.bytes ?? 0,
    };
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && !this.isOnDisk;
  }

  get hasDisk(): boolean {
    return this.#options.spool !== undefined;
  }

  get isOnDisk(): boolean {
    return (this.#options.spool?.calls ?? 0) > 0;
  }

  isFull(): boolean {
    const { spool, maxCalls, maxBytes } = this.#options;
    return spool?.isFull() === true || this.#waiting.length >= maxCalls || this.#bytes >= maxBytes;
  }

  push(call: WaitingCall): void {
    this.#waiting.push(call);
    this.#bytes += call.bytes;
  }

  /** The next ones to write; they stay until they are taken. */
  async next(maxCalls: number, maxBytes: number): Promise<Batch> {
    const { spool } = this.#options;
    if (spool !== undefined && this.isOnDisk) {
      await this.spill();
      const records = await spool.oldest(maxCalls, maxBytes);
      return { calls: records.map(fromDisk), onDisk: true };
    }
    const calls: WaitingCall[] = [];
    let bytes = 0;
    for (const call of this.#waiting) {
      bytes += call.bytes;
      if (calls.length === maxCalls || (calls.length > 0 && bytes > maxBytes)) break;
      calls.push(call);
    }
    return { calls, onDisk: false };
  }

  /** The store has them. Those that were put on disk meanwhile are not among the answer: they are sent again. */
  async take({ calls, onDisk }: Batch): Promise<WaitingCall[]> {
    if (!onDisk) return calls.filter((call) => this.#leaveMemory(call));
    await this.#options.spool?.remove(calls.length);
    return calls;
  }

  /** A batch of one call that the store cannot take: the others go first. */
  async putLast({ calls, onDisk }: Batch): Promise<void> {
    const { spool, log } = this.#options;
    if (!onDisk || spool === undefined) {
      // Unless it was put on disk meanwhile.
      const at = this.#waiting.indexOf(calls[0]!);
      if (at !== -1) this.#waiting.push(...this.#waiting.splice(at, 1));
      return;
    }
    try {
      await spool.append(calls.map(toDisk));
      await spool.remove(calls.length);
    } catch (error) {
      log.warning("a call cannot be put behind the others", { error: messageOf(error) });
    }
  }

  /** Puts on disk what waits in memory, as long as there is room. */
  spill(): Promise<void> {
    this.#spilling ??= this.#spillAll().finally(() => (this.#spilling = undefined));
    return this.#spilling;
  }

  /** What is still in memory, given up. */
  drop(): WaitingCall[] {
    this.#bytes = 0;
    return this.#waiting.splice(0);
  }

  /** What is on disk stays there. */
  async close(): Promise<void> {
    const { spool, log } = this.#options;
    if (spool === undefined) return;
    const { calls, folder } = spool;
    if (calls > 0)
      log.warning("recorded calls wait on disk for the next start of the proxy", { calls, folder });
    await spool.close();
  }

  async #spillAll(): Promise<void> {
    const { spool, log, onTwice } = this.#options;
    while (spool !== undefined && this.#waiting.length > 0 && !spool.isFull()) {
      const calls = this.#waiting.slice(0, maxSpilled);
      try {
        await spool.append(calls.map(toDisk));
      } catch (error) {
        log.error("calls cannot be put on disk; they wait in memory", { error: messageOf(error) });
        return;
      }
      for (const call of calls) if (!this.#leaveMemory(call)) onTwice(call.attempt);
    }
  }

  /** False when the call is not there any more. */
  #leaveMemory(call: WaitingCall): boolean {
    const at = this.#waiting.indexOf(call);
    if (at === -1) return false;
    this.#waiting.splice(at, 1);
    this.#bytes -= call.bytes;
    return true;
  }
}

function toDisk({ attempt, spans }: WaitingCall): SpoolRecord {
  return { attempt, spans: JSON.stringify(spans) };
}

function fromDisk({ attempt, spans }: SpoolRecord): WaitingCall {
  return { attempt, spans: JSON.parse(spans) as Span[], bytes: spans.length };
}
