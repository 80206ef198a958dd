import { selfCommand } from "../../src/self.ts";

export interface ServedProcess {
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

/** The program as a server of its own that prints `NAME: URL`; fails with what it said when it does not start. */
export async function startServedProcess(
  name: string,
  args: string[],
  { through = [], cwd = "/" }: ServeOptions = {},
): Promise<ServedProcess> {
  const child = Bun.spawn([...through, ...selfCommand(args)], {
    cwd,
    env: { PATH: process.env["PATH"] ?? "" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  let log = "";
  const logged = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  const url = await addressIn(child.stdout, new RegExp(`^${name}: (http:[^\\s,]+)`, "m"));
  if (url === undefined) {
    await Promise.all([logged, child.exited]);
    throw new Error(`the ${name} did not start: ${log}`);
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
async function addressIn(
  stdout: ReadableStream<Uint8Array<ArrayBuffer>>,
  form: RegExp,
): Promise<string | undefined> {
  const lines = stdout.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
  let text = "";
  for (;;) {
    const { value, done } = await lines.next();
    if (done) return undefined;
    text += value;
    const url = form.exec(text)?.[1];
    if (url === undefined) continue;
    void (async () => {
      while (!(await lines.next()).done);
    })();
    return url;
  }
}
