import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { AglError, messageOf, UsageError } from "../errors.ts";

const bufferCharacters = 64 * 1024;
const retryMs = 5;

/**
 * Lines to stdout or to a file, written before `close` returns and never held back in memory. A reader that leaves,
 * such as `head`, ends the output without an error; a file appears when it is complete.
 */
export class LineOutput {
  readonly #file: string | undefined;
  readonly #descriptor: number;
  readonly #write: typeof writeSync;
  #waiting = "";
  #readerLeft = false;
  #closed = false;

  constructor(file?: string, write: typeof writeSync = writeSync) {
    this.#file = file;
    this.#write = write;
    this.#descriptor = file === undefined ? 1 : openForWriting(file);
  }

  /** False when nobody reads any more. */
  async line(text: string): Promise<boolean> {
    this.#waiting += `${text}\n`;
    if (this.#waiting.length >= bufferCharacters) await this.#flush();
    return !this.#readerLeft;
  }

  async close(): Promise<void> {
    await this.#flush();
    if (this.#file === undefined) return;
    try {
      fsyncSync(this.#descriptor);
      closeSync(this.#descriptor);
      this.#closed = true;
      renameSync(partOf(this.#file), this.#file);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** After a failure: no half of a file stays. */
  abandon(): void {
    if (this.#file === undefined) return;
    if (!this.#closed) closeSync(this.#descriptor);
    this.#closed = true;
    rmSync(partOf(this.#file), { force: true });
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.from(this.#waiting);
    this.#waiting = "";
    for (let written = 0; written < bytes.length && !this.#readerLeft;) {
      try {
        written += this.#write(this.#descriptor, bytes, written, bytes.length - written);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === "EPIPE") this.#readerLeft = true;
        // A pipe that somebody set to non-blocking, and that is full.
        else if (code === "EAGAIN") await Bun.sleep(retryMs);
        else throw this.#failed(error);
      }
    }
  }

  #failed(error: unknown): AglError {
    const place = this.#file ?? "stdout";
    return new AglError("environment", `${place} cannot be written (${messageOf(error)})`, {
      remedy: "make room there, or write elsewhere with --output FILE",
      cause: error,
    });
  }
}

function partOf(file: string): string {
  return `${file}.part`;
}

function openForWriting(file: string): number {
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory() === true) {
    throw new UsageError(`--output: ${file} is a folder`, "name a file in it");
  }
  try {
    return openSync(partOf(file), "w");
  } catch (error) {
    throw new UsageError(
      `--output: ${file} cannot be written (${messageOf(error)})`,
      "name a file in a folder that exists",
    );
  }
}
