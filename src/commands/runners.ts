import { AglError, messageOf, UsageError } from "../errors.ts";
import { createLogger } from "../log.ts";
import { checkRunnersSettings, runRunners } from "../runner-host.ts";
import type { RunnerEvent } from "../runner/events.ts";

const maxLineLength = 1024 * 1024;
/** Once stdin is closed, by the parent's end or by ours: a thread in a native call would keep the process for as long. */
const exitLimitMs = 3_000;
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * `agl __runners`: reads its options as one line of JSON from stdin, prints events as lines of JSON on stdout, and ends
 * on SIGTERM, SIGINT, or when stdin closes, which means that the parent is gone. A second signal ends it at once.
 */
export async function runners(): Promise<number> {
  const stop = new AbortController();
  let exitCode = 0;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(exitCodes[signal]);
      exitCode = exitCodes[signal];
      stop.abort();
    });
  }
  const input = Bun.stdin.stream().getReader();
  try {
    const settings = checkRunnersSettings(parseOptions(await readLine(input)));
    void untilClosed(input).then(() => {
      stop.abort();
      setTimeout(() => process.exit(exitCode), exitLimitMs).unref();
    });
    const log = createLogger("runner", { level: settings.logLevel });
    // Agents' errors stay in their threads; one of ours must not take all attempts with it.
    process.on("unhandledRejection", (error) =>
      log.error("an error nobody awaited", { error: messageOf(error) }),
    );
    const outcome = await runRunners({ ...settings, signal: stop.signal, log, onEvent: print });
    print({ event: "stopped", ...outcome });
    return exitCode;
  } catch (error) {
    exitCode = error instanceof AglError ? error.exitCode : 1;
    const remedy = error instanceof AglError && error.remedy !== undefined ? { remedy: error.remedy } : {};
    print({ event: "failed", message: messageOf(error), ...remedy });
    throw error;
  } finally {
    // A read that is still waited for would keep this process alive.
    await input.cancel().catch(() => {});
  }
}

function print(event: RunnerEvent): void {
  console.log(JSON.stringify(event));
}

function parseOptions(line: string | undefined): unknown {
  if (line === undefined) throw new UsageError("runners: stdin closed before the options came");
  try {
    return JSON.parse(line);
  } catch {
    throw new UsageError("runners: the first line on stdin is not JSON");
  }
}

type Input = ReadableStreamDefaultReader<Uint8Array>;

async function readLine(input: Input): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await input.read();
    if (done) return text.trim() === "" ? undefined : text;
    text += decoder.decode(value, { stream: true });
    if (text.length > maxLineLength)
      throw new UsageError(`runners: the options are longer than ${maxLineLength} characters`);
  }
  return text.slice(0, text.indexOf("\n"));
}

/** Whatever else the parent writes is of no interest. */
async function untilClosed(input: Input): Promise<void> {
  try {
    while (!(await input.read()).done);
  } catch {
    // Closed is closed.
  }
}
