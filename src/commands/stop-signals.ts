import { AglError } from "../errors.ts";

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/**
 * The first SIGINT, SIGTERM or SIGHUP aborts the returned signal with the exit code in its reason; the second ends this
 * process at once, and the guards end all children with it.
 */
export function stopOnSignals(say: (line: string) => void): { signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const listeners = Object.entries(exitCodes).map(([name, exitCode]) => {
    const listener = () => {
      if (controller.signal.aborted) process.exit(exitCode);
      say(`${name}: stopping (once more to end at once)`);
      controller.abort(new AglError("cancelled", `stopped by ${name}`, { exitCode }));
    };
    process.on(name, listener);
    return { name, listener };
  });
  return {
    signal: controller.signal,
    release() {
      for (const { name, listener } of listeners) process.off(name, listener);
    },
  };
}

/**
 * Waits for the stop and returns its exit code: for servers, whose end is always a stop. SIGTERM is how supervisors
 * end what did its work well, hence 0; Ctrl-C keeps its own, by which shells know that the user wants no more.
 */
export async function untilStopped(signal: AbortSignal): Promise<number> {
  if (!signal.aborted)
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  const exitCode = signal.reason instanceof AglError ? signal.reason.exitCode : 1;
  return exitCode === exitCodes.SIGTERM ? 0 : exitCode;
}
