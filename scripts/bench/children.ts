import { readFileSync } from "node:fs";
import { childEnvironment } from "../../src/engine/child-environment.ts";

const clockTicksPerSecond = 100;

/** A process that the benchmark started. */
export interface Child {
  pid: number;
  /** Processor time that it has used so far, of all its threads, user and system. */
  cpuMs(): number;
  /** Ends it and waits for its end. */
  stop(signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
}

/** Every process that the benchmark started, so that all of them end with it. */
export class Children {
  readonly #living = new Map<number, Bun.Subprocess>();

  /** Takes charge of a process. */
  adopt(subprocess: Bun.Subprocess): Child {
    const { pid } = subprocess;
    this.#living.set(pid, subprocess);
    void subprocess.exited.then(() => this.#living.delete(pid));
    return {
      pid,
      cpuMs: () => cpuMsOf(pid),
      stop: async (signal = "SIGTERM") => {
        subprocess.kill(signal);
        const patience = setTimeout(() => subprocess.kill("SIGKILL"), 10_000);
        await subprocess.exited;
        clearTimeout(patience);
      },
    };
  }

  /** Starts a program and waits until a line of its output holds `ready`, which it returns. */
  async start(command: string[], ready: RegExp, limitMs = 60_000): Promise<{ child: Child; line: string }> {
    const subprocess = Bun.spawn(command, {
      env: childEnvironment(),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    const child = this.adopt(subprocess);
    const line = await Promise.race([
      firstMatch(subprocess.stdout, ready),
      Bun.sleep(limitMs).then(() => undefined),
    ]);
    if (line !== undefined) return { child, line };
    await child.stop("SIGKILL");
    throw new Error(`${command.slice(0, 3).join(" ")} was not ready`);
  }

  killAll(): void {
    for (const subprocess of this.#living.values()) subprocess.kill("SIGKILL");
  }
}

async function firstMatch(stream: ReadableStream<Uint8Array>, pattern: RegExp): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return undefined;
    text += decoder.decode(value, { stream: true });
    const found = pattern.exec(text);
    if (found === null) continue;
    void drain(reader);
    return found[0];
  }
}

/** A pipe that nobody reads would fill up or grow. */
async function drain(reader: { read(): Promise<{ done: boolean }> }): Promise<void> {
  while (!(await reader.read()).done);
}

function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / clockTicksPerSecond;
}
