import { join } from "node:path";
import type { Children } from "./children.ts";
import type { Figures } from "./figures.ts";
import { Load } from "./load.ts";
import { startParseOnly, startPythonStore, startStore } from "./servers.ts";
import type { Server } from "./servers.ts";

export interface BenchOptions {
  /** 1 for the published sizes; less for a quick run. */
  scale: number;
  /** Of interleaved measurements. */
  pairs: number;
  /** Length of one measured turn. */
  turnSeconds: number;
  /** Of the published scenarios, by name; all of them when absent. */
  scenarios: string[] | undefined;
  /** A compiled program to measure instead of the source. */
  agl: string | undefined;
}

/** What every group of figures works with. */
export class Bench {
  readonly options: BenchOptions;
  readonly figures: Figures;
  readonly children: Children;
  readonly folder: string;
  #files = 0;
  #idle: Load[] = [];

  constructor(parts: { options: BenchOptions; figures: Figures; children: Children; folder: string }) {
    this.options = parts.options;
    this.figures = parts.figures;
    this.children = parts.children;
    this.folder = parts.folder;
  }

  newFile(): string {
    this.#files += 1;
    return join(this.folder, `store-${this.#files}.db`);
  }

  store(db = this.newFile()): Promise<Server> {
    return startStore(this.children, { db, agl: this.options.agl });
  }

  parseOnly(): Promise<Server> {
    return startParseOnly(this.children);
  }

  pythonStore(): Promise<Server> {
    return startPythonStore(this.children);
  }

  /** So many load processes, kept warm from figure to figure. */
  loads(count: number): Load[] {
    while (this.#idle.length < count) this.#idle.push(new Load(this.children));
    return this.#idle.slice(0, count);
  }

  load(): Load {
    return this.loads(1)[0]!;
  }

  /** After a failure: nothing of it reaches into the next figure. */
  reset(): void {
    this.children.killAll();
    this.#idle = [];
  }

  /** A count at the run's scale, at least `least`. */
  count(full: number, least = 1): number {
    return Math.max(least, Math.round(full * this.options.scale));
  }
}

/** Processor milliseconds that a server uses while something runs. */
export async function withCpu<Result>(
  server: Server,
  run: () => Promise<Result>,
): Promise<{ result: Result; cpuMs: number }> {
  const before = server.cpuMs();
  const result = await run();
  return { result, cpuMs: server.cpuMs() - before };
}
