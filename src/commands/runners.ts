import { AglError, messageOf, UsageError } from "../errors.ts";
import { createLogger } from "../log.ts";
import { checkRunnersSettings, runRunners } from "../runner-host.ts";
import type { RunnerEvent } from "../runner/events.ts";

const maxLineLength = 1024 * 1024;
/** After the parent's end nobody waits for what is left to write. */
const orphanLimitMs = 3_000;
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
  const input = readLines(Bun.stdin.stream());
  const settings = checkRunnersSettings(parseOptions((await input.next()).value));
  void untilClosed(input).then(() => {
    stop.abort();
    setTimeout(() => process.exit(exitCode), orphanLimitMs).unref();
  });
  try {
    const log = createLogger("runner", { level: settings.logLevel });
    const { succeeded, failed, failedBecause, workersReplaced } = await runRunners({
      ...settings,
      signal: stop.signal,
      log,
      onEvent: print,
    });
    print({ event: "stopped", succeeded, failed, failedBecause, workersReplaced });
    return exitCode;
  } catch (error) {
    const remedy = error instanceof AglError && error.remedy !== undefined ? { remedy: error.remedy } : {};
    print({ event: "failed", message: messageOf(error), ...remedy });
    throw error;
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

async function untilClosed(input: AsyncGenerator<string>): Promise<void> {
  for await (const _ of input) {
    // Nothing more is expected; what comes is ignored.
  }
}

async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = (lines.pop() ?? "").slice(0, maxLineLength);
    yield* lines;
  }
}
