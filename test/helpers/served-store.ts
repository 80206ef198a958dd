import { freePort } from "../../src/engine/port-owner.ts";
import { selfCommand } from "../../src/self.ts";

export interface ServedStore {
  url: string;
  pid: number;
  process: Bun.Subprocess<"ignore", "pipe", "pipe">;
  /** What it wrote to stderr so far. */
  log(): string;
  /** Ends it in the given way, and waits for that; returns its exit code, null after a signal. */
  end(signal: "SIGTERM" | "SIGKILL"): Promise<number | null>;
}

export interface ServeOptions {
  /** Words before the command, such as a shell that sets limits. */
  through?: string[];
  cwd?: string;
}

/** `agl store` as a process of its own, on a free port; fails with what it said when it does not start. */
export async function startServedStore(path: string, options: ServeOptions = {}): Promise<ServedStore> {
  const { through = [], cwd = "/" } = options;
  const child = Bun.spawn(
    [...through, ...selfCommand(["store", "--db", path, "--port", String(freePort())])],
    {
      cwd,
      env: { PATH: process.env["PATH"] ?? "" },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  let log = "";
  const logged = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  const url = await addressIn(child.stdout);
  if (url === undefined) {
    await Promise.all([logged, child.exited]);
    throw new Error(`the store did not start: ${log}`);
  }
  return {
    url,
    pid: child.pid,
    process: child,
    log: () => log,
    async end(signal) {
      child.kill(signal);
      await Promise.all([child.exited, logged]);
      return child.exitCode;
    },
  };
}

/** Reads on behind it, so that the process never waits for its reader. */
async function addressIn(stdout: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string | undefined> {
  const lines = stdout.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
  let text = "";
  for (;;) {
    const { value, done } = await lines.next();
    if (done) return undefined;
    text += value;
    const url = /^store: (http:\S+)/m.exec(text)?.[1];
    if (url === undefined) continue;
    void (async () => {
      while (!(await lines.next()).done);
    })();
    return url;
  }
}
