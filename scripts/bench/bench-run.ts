import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Children } from "./children.ts";
import { asLine, Figures } from "./figures.ts";

/** One run of a benchmark: what it starts and writes is gone when it ends, by itself, by a signal or at its limit. */
export class BenchRun {
  readonly children = new Children();
  readonly figures = new Figures();
  readonly folder = mkdtempSync(join(tmpdir(), "agl-bench-"));
  readonly #json: string | undefined;
  readonly #failures: string[] = [];

  constructor({ json, limitMinutes }: { json: string | undefined; limitMinutes: number }) {
    this.#json = json;
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => this.#exit(130));
    setTimeout(() => {
      this.#failures.push(`the limit of ${limitMinutes} minutes was reached`);
      this.end();
    }, limitMinutes * 60_000);
  }

  failed(error: unknown, of?: string): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#failures.push(of === undefined ? text : `${of}: ${text}`);
  }

  /** Writes the figures and ends the process: with 1 when something failed. */
  end(): never {
    this.#exit(this.#failures.length === 0 ? 0 : 1);
  }

  #exit(code: number): never {
    this.children.killAll();
    rmSync(this.folder, { recursive: true, force: true });
    if (this.#json !== undefined) {
      writeFileSync(this.#json, JSON.stringify(this.figures.all.map(asLine), null, 2));
    }
    console.log(`\n${this.figures.table()}`);
    for (const failure of this.#failures) console.log(`\nfailed: ${failure}`);
    process.exit(code);
  }
}

/** A flag's number above 0; anything else ends the process with 2. */
export function positive(name: string, text: string): number {
  const value = Number(text);
  if (value > 0) return value;
  console.error(`--${name} ${text}: a number above 0 is needed`);
  process.exit(2);
}
