import {
  accessSync,
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmdirSync,
} from "node:fs";
import { open, readFile, rm, type FileHandle } from "node:fs/promises";
import { AglError, messageOf } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { SpoolFiles } from "./spool-files.ts";
import { decodeRecords, encodeRecord, type SpoolRecord } from "./spool-records.ts";

export interface SpoolOptions {
  folder: string;
  /** Address of the store that the calls are for; calls for another one stay where they are. */
  store: string;
  maxBytes: number;
  log: Logger;
  maxFileBytes?: number;
}

interface Segment {
  path: string;
  bytes: number;
  /** Of the calls in it that are not done with. */
  attempts: string[];
}

interface Head {
  segment: Segment;
  records: SpoolRecord[];
  /** How many of them are done with. */
  done: number;
}

const newline = 10;

/**
 * Recorded calls on disk, first in, first out: files to which records are appended, each write followed by one fsync.
 * A file is deleted when its last record is done with, so after a crash some are sent twice, and none is lost.
 */
export class Spool {
  readonly #options: Required<SpoolOptions>;
  readonly #files: SpoolFiles;
  readonly #heading: Uint8Array;
  readonly #segments: Segment[] = [];
  /** Attempts of the calls found at the start, one entry for each call. */
  readonly found: string[] = [];
  /** Told of calls that are gone or damaged, by their attempts. */
  onLost: (attempts: string[]) => void = () => {};
  #tail: { segment: Segment; handle: FileHandle } | undefined;
  #head: Head | undefined;
  #calls = 0;
  #bytes = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: SpoolOptions) {
    this.#options = { maxFileBytes: 16 * 1024 * 1024, ...options };
    this.#files = new SpoolFiles(options.folder);
    this.#heading = new TextEncoder().encode(`agl-spool 1 ${JSON.stringify(options.store)}\n`);
    try {
      mkdirSync(options.folder, { recursive: true });
      accessSync(options.folder, constants.W_OK);
      this.#adoptAll();
    } catch (error) {
      throw new AglError(
        "configuration",
        `${options.folder}: calls cannot wait there (${messageOf(error)})`,
        {
          remedy: "set --proxy-spool-dir to a folder that can be written",
          cause: error,
        },
      );
    }
  }

  get folder(): string {
    return this.#options.folder;
  }

  get calls(): number {
    return this.#calls;
  }

  get bytes(): number {
    return this.#bytes;
  }

  isFull(): boolean {
    return this.#bytes >= this.#options.maxBytes;
  }

  /** Returns when the records are on disk; when it fails, none of them counts. */
  append(records: SpoolRecord[]): Promise<void> {
    return this.#alone(async () => {
      const { segment, handle } = await this.#writable();
      const content = Buffer.concat(records.map(encodeRecord));
      try {
        await writeAll(handle, content, segment.bytes);
        await handle.datasync();
      } catch (error) {
        // What came after half a record would still be read, but nothing is appended to a doubtful file.
        this.#tail = undefined;
        await handle.truncate(segment.bytes).catch(() => {});
        await handle.close().catch(() => {});
        throw error;
      }
      segment.bytes += content.length;
      segment.attempts.push(...records.map(({ attempt }) => attempt));
      this.#bytes += content.length;
      this.#calls += records.length;
    });
  }

  /** The first ones that are not done with. */
  oldest(maxRecords: number, maxBytes: number): Promise<SpoolRecord[]> {
    return this.#alone(async () => {
      const head = await this.#readHead();
      if (head === undefined) return [];
      let bytes = 0;
      const records: SpoolRecord[] = [];
      for (const record of head.records.slice(head.done, head.done + maxRecords)) {
        bytes += record.spans.length;
        if (records.length > 0 && bytes > maxBytes) break;
        records.push(record);
      }
      return records;
    });
  }

  /** The first ones are done with. */
  remove(count: number): Promise<void> {
    return this.#alone(async () => {
      if (this.#head === undefined) return;
      this.#head.done += count;
      this.#head.segment.attempts.splice(0, count);
      this.#calls -= count;
      if (this.#head.done === this.#head.records.length) await this.#removeHead(this.#head);
    });
  }

  /** What is left stays for the next start. */
  close(): Promise<void> {
    return this.#alone(async () => {
      await this.#closeTail();
      for (const { path, attempts } of this.#segments.splice(0)) {
        if (attempts.length > 0) this.#files.release(path);
        else await rm(path, { force: true });
      }
      try {
        rmdirSync(this.#options.folder);
      } catch {
        // Something is left in it.
      }
    });
  }

  #adoptAll(): void {
    for (const path of this.#files.abandoned()) {
      const { attempts, unreadableBytes, bytes } = this.#inspect(path);
      if (attempts === null) continue;
      const own = this.#files.adopt(path);
      if (own === undefined) continue;
      if (unreadableBytes > 0) {
        const fields = { path, bytes: unreadableBytes, whole_calls: attempts.length };
        this.#options.log.warning("a file of waiting calls ends in the middle of one, or is damaged", fields);
      }
      this.#segments.push({ path: own, bytes, attempts });
      this.#bytes += bytes;
      this.#calls += attempts.length;
      this.found.push(...attempts);
    }
  }

  /** Attempts are null when the file is not for this store. */
  #inspect(path: string): { attempts: string[] | null; unreadableBytes: number; bytes: number } {
    const content = readFileSync(path);
    const bytes = content.length;
    const heading = content.subarray(0, content.indexOf(newline) + 1);
    if (heading.length > 0 && !heading.equals(this.#heading)) {
      if (heading.toString().startsWith("agl-spool ")) {
        const text = heading.toString().trim().slice(0, 500);
        const fields = { path, heading: text };
        this.#options.log.warning("calls wait here for another store and are left alone", fields);
      } else {
        this.#options.log.warning("a file that holds no waiting calls, or a damaged one, is left alone", {
          path,
        });
      }
      return { attempts: null, unreadableBytes: 0, bytes };
    }
    const { records, unreadableBytes } = decodeRecords(content.subarray(heading.length));
    return { attempts: records.map(({ attempt }) => attempt), unreadableBytes, bytes };
  }

  async #writable(): Promise<{ segment: Segment; handle: FileHandle }> {
    const full = this.#tail !== undefined && this.#tail.segment.bytes >= this.#options.maxFileBytes;
    if (full) await this.#closeTail();
    if (this.#tail !== undefined) return this.#tail;
    const segment: Segment = { path: this.#files.next(), bytes: 0, attempts: [] };
    // Another proxy that uses it, too, has removed it as it ended.
    mkdirSync(this.#options.folder, { recursive: true });
    const handle = await open(segment.path, "wx", 0o600);
    try {
      await writeAll(handle, this.#heading, 0);
      syncFolder(this.#options.folder);
    } catch (error) {
      await handle.close().catch(() => {});
      await rm(segment.path, { force: true }).catch(() => {});
      throw error;
    }
    segment.bytes = this.#heading.length;
    this.#bytes += segment.bytes;
    this.#segments.push(segment);
    return (this.#tail = { segment, handle });
  }

  async #readHead(): Promise<Head | undefined> {
    while (this.#head === undefined) {
      const segment = this.#segments[0];
      if (segment === undefined) return undefined;
      if (segment === this.#tail?.segment) await this.#closeTail();
      // Behind them may lie a write that failed and could not be taken back.
      const records = (await recordsIn(segment.path)).slice(0, segment.attempts.length);
      const head = { segment, records, done: 0 };
      if (records.length > 0) this.#head = head;
      else await this.#removeHead(head);
    }
    return this.#head;
  }

  async #removeHead({ segment }: Head): Promise<void> {
    this.#head = undefined;
    this.#segments.shift();
    this.#bytes -= segment.bytes;
    const { path, attempts } = segment;
    this.#calls -= attempts.length;
    if (attempts.length > 0) {
      this.#options.log.error("calls that waited on disk are gone or damaged", {
        path,
        calls: attempts.length,
      });
      this.onLost(attempts);
    }
    try {
      await rm(path, { force: true });
    } catch (error) {
      this.#options.log.warning("calls that are stored are sent again at the next start", {
        path,
        error: messageOf(error),
      });
    }
  }

  async #closeTail(): Promise<void> {
    const tail = this.#tail;
    this.#tail = undefined;
    await tail?.handle.close();
  }

  /** One after another. */
  #alone<Value>(run: () => Promise<Value>): Promise<Value> {
    const result = this.#last.then(run);
    this.#last = result.catch(() => {});
    return result;
  }
}

/** None when somebody has deleted the file. */
async function recordsIn(path: string): Promise<SpoolRecord[]> {
  try {
    const content = await readFile(path);
    return decodeRecords(content.subarray(content.indexOf(newline) + 1)).records;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Else a new file may be gone after a power cut, with what was synced into it. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
