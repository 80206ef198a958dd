import * as v from "valibot";
import { CauseFinder } from "../engine/cause.ts";
import { childEnvironment } from "../engine/child-environment.ts";
import { describeExit, spawnGuarded } from "../engine/child.ts";
import { AglError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { selfCommand } from "../self.ts";

const eventSchema = v.looseObject({ event: v.string() });

export interface RunnerProcess {
  /** Settles when every worker and its tool servers are ready; rejects when the process ends before. */
  ready: Promise<void>;
  /** Rejects when the process ends without having been asked to. */
  failed: Promise<never>;
  stop(): Promise<void>;
}

/** The runners in a process of their own, which cancels its attempts when told to stop or when this process dies. */
export function startRunnerProcess(
  options: Record<string, unknown>,
  context: { logFile: string; log: Logger; readyTimeoutMs: number; stopGraceMs: number },
): RunnerProcess {
  const cause = new CauseFinder();
  const ready = Promise.withResolvers<void>();
  const child = spawnGuarded(selfCommand(["__runners"]), {
    env: childEnvironment({ BUN_CONFIG_MAX_HTTP_REQUESTS: "65336" }),
    logFile: context.logFile,
    graceMs: context.stopGraceMs,
    onLine: (line, stream) => {
      const event = stream === "stdout" ? parseEvent(line) : undefined;
      if (event === undefined) return cause.see(line);
      if (event.event === "ready") ready.resolve();
      if (event.event === "failed") cause.see(`error: ${String(event["message"])}`);
    },
  });
  child.write(JSON.stringify(options) + "\n");
  const failed = child.exited.then(async (exit): Promise<never> => {
    if (exit.stopped) return await new Promise<never>(() => {});
    const reason = cause.cause();
    throw new AglError("agent", `the runners ended (${describeExit(exit)})${reason ? `: ${reason}` : ""}`, {
      remedy: `see their log: ${context.logFile}`,
    });
  });
  failed.catch((error: unknown) => ready.reject(error));
  const timer = setTimeout(() => {
    ready.reject(
      new AglError("tool", `the runners were not ready after ${context.readyTimeoutMs / 1000} s`, {
        remedy: `a tool server may not start; see ${context.logFile}`,
      }),
    );
  }, context.readyTimeoutMs);
  void ready.promise.catch(() => {}).finally(() => clearTimeout(timer));
  return {
    ready: ready.promise,
    failed,
    async stop() {
      await child.stop();
    },
  };
}

function parseEvent(line: string): v.InferOutput<typeof eventSchema> | undefined {
  try {
    const result = v.safeParse(eventSchema, JSON.parse(line));
    return result.success ? result.output : undefined;
  } catch {
    return undefined;
  }
}
