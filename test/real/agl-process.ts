import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../helpers/processes.ts";

const binary = join(import.meta.dir, "..", "..", "agl");

export interface AglProcess {
  pid: number;
  /** stdout so far, by line. */
  lines: string[];
  errors: () => string;
  exited: Promise<number>;
  waitForLine(pattern: RegExp, limitMs: number): Promise<string>;
  signal(name: NodeJS.Signals): void;
  /** Pids of everything that was started from this run and lives, itself included. */
  processes(): number[];
}

let number = 0;

/** Starts the compiled binary, or another program, in a folder; every process below it can be told by a mark in its environment. */
export function startAgl(
  args: string[],
  cwd: string,
  extra: Record<string, string | undefined> = {},
  program: string[] = [binary],
): AglProcess {
  const mark = `${process.pid}-${Date.now()}-${++number}`;
  const { PYTHONDONTWRITEBYTECODE: _, ...environment } = process.env;
  const child = Bun.spawn([...program, ...args], {
    cwd,
    env: { ...environment, ...extra, XDG_AGL_TEST_MARK: mark },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const marked = new MarkedProcesses(mark);
  const looking = setInterval(() => marked.list(), 500);
  void child.exited.then(() => clearInterval(looking));
  const lines: string[] = [];
  let errors = "";
  void readLines(child.stdout, (line) => lines.push(line));
  void readLines(child.stderr, (line) => (errors += line + "\n"));
  return {
    pid: child.pid,
    lines,
    errors: () => errors,
    exited: child.exited,
    async waitForLine(pattern, limitMs) {
      const found = () => lines.find((line) => pattern.test(line));
      let exit: number | undefined;
      void child.exited.then((code) => (exit = code));
      await until(
        `a line ${pattern} of ${args.join(" ")}`,
        () => {
          if (found() === undefined && exit !== undefined) {
            throw new Error(`ended with ${exit} before a line ${pattern}:\n${lines.join("\n")}\n${errors}`);
          }
          return found() !== undefined;
        },
        limitMs,
      );
      return found() as string;
    },
    signal: (name) => child.kill(name),
    processes: () => marked.list(),
  };
}

/**
 * Finds processes by the mark in their environment and, since some overwrite theirs with a title (vLLM's EngineCore does),
 * by the process groups in which marked ones were seen.
 */
class MarkedProcesses {
  readonly #mark: string;
  readonly #groups = new Set<number>();

  constructor(mark: string) {
    this.#mark = mark;
  }

  list(): number[] {
    const living = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map((name) => ({ pid: Number(name), group: groupOf(name), marked: this.#isMarked(name) }));
    const ownGroup = groupOf("self");
    for (const { group, marked } of living) {
      if (marked && group !== undefined && group !== ownGroup) this.#groups.add(group);
    }
    return living
      .filter(({ group, marked }) => marked || (group !== undefined && this.#groups.has(group)))
      .map(({ pid }) => pid);
  }

  #isMarked(name: string): boolean {
    try {
      return readFileSync(`/proc/${name}/environ`, "latin1").includes(`XDG_AGL_TEST_MARK=${this.#mark}\0`);
    } catch {
      // A process that is gone, or a zombie, whose environment cannot be read.
      return false;
    }
  }
}

/** Of a process that lives and is no zombie. */
function groupOf(name: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${name}/stat`, "latin1");
    const [state, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? undefined : Number(group);
  } catch {
    return undefined;
  }
}

async function readLines(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  }
  if (rest !== "") take(rest);
}
