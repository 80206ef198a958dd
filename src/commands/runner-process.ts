import { CauseFinder } from "../engine/cause.ts";
import { childEnvironment } from "../engine/child-environment.ts";
import { describeExit, explainExit, spawnGuarded } from "../engine/child.ts";
import { AglError } from "../errors.ts";
import { parseRunnerEvent } from "../runner/events.ts";
import { selfCommand } from "../self.ts";

export interface RunnerProcess {
  /** Settles when every worker and its tool servers are ready; rejects when the process ends before. */
  ready: Promise<void>;
  /** Resolves with the reason when the process is gone, its children included, without having been asked to. */
  died: Promise<AglError>;
  stop(): Promise<void>;
}

export interface RunnerProcessContext {
  logFile: string;
  readyTimeoutMs: number;
  stopGraceMs: number;
}

/** The runners in a process of their own, which cancels its attempts when told to stop or when this process dies. */
export function startRunnerProcess(
  options: Record<string, unknown>,
  { logFile, readyTimeoutMs, stopGraceMs }: RunnerProcessContext,
): RunnerProcess {
  const cause = new CauseFinder();
  const seeLog = `see their log: ${logFile}`;
  const ready = Promise.withResolvers<void>();
  let asked = false;
  let failure: AglError | undefined;
  const child = spawnGuarded(selfCommand(["__runners"]), {
    env: childEnvironment({ BUN_CONFIG_MAX_HTTP_REQUESTS: "65336" }),
    logFile,
    graceMs: stopGraceMs,
    onLine: (line, stream) => {
      const event = stream === "stdout" ? parseRunnerEvent(line) : null;
      if (event === null) return cause.see(line);
      if (event.event === "ready") ready.resolve();
      if (event.event !== "failed") return;
      failure ??= new AglError("agent", event.message, { remedy: event.remedy ?? seeLog });
    },
  });
  child.write(JSON.stringify(options) + "\n");
  const timer = setTimeout(() => {
    failure = new AglError("tool", `the runners were not ready after ${readyTimeoutMs / 1000} s`, {
      remedy: `a tool server may not start; ${seeLog}`,
    });
    void child.stop();
  }, readyTimeoutMs);
  const died = child.exited.then(async (exit): Promise<AglError> => {
    clearTimeout(timer);
    if (asked) return await new Promise<never>(() => {});
    if (failure !== undefined) return failure;
    const reason = explainExit(exit, cause);
    const text = `the runners ended (${describeExit(exit)})${reason === undefined ? "" : `: ${reason}`}`;
    return new AglError("agent", text, { remedy: seeLog });
  });
  void died.then((error) => ready.reject(error));
  ready.promise.then(
    () => clearTimeout(timer),
    () => {},
  );
  return {
    ready: ready.promise,
    died,
    async stop() {
      asked = true;
      await child.stop();
    },
  };
}
