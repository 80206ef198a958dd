import { closeSync, openSync, readSync } from "node:fs";
import * as v from "valibot";

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const numbers = v.array(v.number());

export const trainResultSchema = v.object({
  kind: v.literal("result"),
  rows: count,
  /** Rows left out, by reason. */
  dropped: v.record(v.string(), count),
  steps: count,
  /** Mean loss over the trainable tokens of the rows, of the base and of what was saved. */
  loss_before: v.number(),
  loss_after: v.number(),
  tensors: v.object({ changed: count, total: count }),
  /** The most that tensors took of a GPU. */
  gpu_peak_bytes: v.optional(count),
  /** By phase: imports, load, train, merge, verify. */
  seconds: v.record(v.string(), v.number()),
  /** Log-probabilities of each token from the second on, under the base and under what was saved. */
  probes: v.array(v.object({ ids: numbers, before: numbers, after: numbers })),
});
const progressSchema = v.object({
  kind: v.literal("progress"),
  phase: v.string(),
  step: v.optional(count),
  steps: v.optional(count),
  loss: v.optional(v.number()),
});
const logSchema = v.object({ kind: v.literal("log"), message: v.string() });
const errorSchema = v.object({ kind: v.literal("error"), message: v.string() });
const lineSchema = v.variant("kind", [trainResultSchema, progressSchema, logSchema, errorSchema]);

export type TrainResult = v.InferOutput<typeof trainResultSchema>;
export type TrainProgress = v.InferOutput<typeof progressSchema>;
export type TrainerLine = v.InferOutput<typeof lineSchema>;

const maxLineBytes = 64 * 1024 * 1024;
const chunkBytes = 64 * 1024;

/** Reads the lines that a trainer appends to its progress file, each once and only when it is complete. */
export class TrainerProgressFile {
  readonly #path: string;
  readonly #onBadLine: (line: string) => void;
  #position = 0;
  #rest: Buffer = Buffer.alloc(0);

  constructor(path: string, onBadLine: (line: string) => void) {
    this.#path = path;
    this.#onBadLine = onBadLine;
  }

  /** What was added since the last call. */
  read(): TrainerLine[] {
    const bytes = Buffer.concat([this.#rest, ...this.#newBytes()]);
    const end = bytes.lastIndexOf(10) + 1;
    this.#rest = bytes.subarray(end);
    if (this.#rest.length > maxLineBytes)
      throw new Error(`a line of ${this.#path} is longer than ${maxLineBytes} bytes`);
    return bytes
      .subarray(0, end)
      .toString()
      .split("\n")
      .filter((line) => line !== "")
      .flatMap((line) => this.#parse(line));
  }

  #newBytes(): Buffer[] {
    let descriptor: number;
    try {
      descriptor = openSync(this.#path, "r");
    } catch {
      // The trainer has not begun to write.
      return [];
    }
    const chunks: Buffer[] = [];
    try {
      for (;;) {
        const chunk = Buffer.alloc(chunkBytes);
        const length = readSync(descriptor, chunk, 0, chunkBytes, this.#position);
        if (length === 0) return chunks;
        this.#position += length;
        chunks.push(chunk.subarray(0, length));
      }
    } finally {
      closeSync(descriptor);
    }
  }

  #parse(line: string): TrainerLine[] {
    try {
      return [v.parse(lineSchema, JSON.parse(line))];
    } catch {
      this.#onBadLine(line.slice(0, 200));
      return [];
    }
  }
}
