import { AglError, messageOf } from "../errors.ts";

export type Status = "ok" | "warning" | "problem";

/** What one look at the machine found; anything but `ok` says what to do about it. */
export interface Finding {
  status: Status;
  message: string;
  remedy?: string;
}

export interface Check {
  name: string;
  /** Longer than this it may not take; then it is a problem of its own. */
  limitMs: number;
  run(signal: AbortSignal): Finding | Finding[] | Promise<Finding | Finding[]>;
}

export interface CheckResult extends Finding {
  check: string;
}

export function ok(message: string): Finding {
  return { status: "ok", message };
}

export function warning(message: string, remedy: string): Finding {
  return { status: "warning", message, remedy };
}

export function problem(message: string, remedy: string): Finding {
  return { status: "problem", message, remedy };
}

/**
 * Runs all checks side by side and tells what they found in their order, each as soon as those before it are done. Throws
 * only when the signal is aborted.
 */
export async function runChecks(
  checks: readonly Check[],
  signal: AbortSignal,
  onResult: (result: CheckResult) => void = () => {},
): Promise<CheckResult[]> {
  const running = checks.map((check) => findingsOf(check, signal));
  // After a stop only the first is awaited; the others fail for the same reason.
  for (const findings of running) findings.catch(() => {});
  const results: CheckResult[] = [];
  for (const [index, check] of checks.entries()) {
    for (const finding of await running[index]!) {
      const result = { check: check.name, ...finding };
      results.push(result);
      onResult(result);
    }
  }
  return results;
}

async function findingsOf(check: Check, signal: AbortSignal): Promise<Finding[]> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), check.limitMs);
  const given = AbortSignal.any([signal, late.signal]);
  try {
    return [await Promise.race([start(check, given), untilAborted(given)])].flat();
  } catch (error) {
    signal.throwIfAborted();
    if (late.signal.aborted) return [gaveNoAnswer(check)];
    if (error instanceof AglError)
      return [problem(error.message, error.remedy ?? "see the message; nothing else is known")];
    return [problem(`could not be checked: ${messageOf(error)}`, "this is a bug of agl; please report it")];
  } finally {
    clearTimeout(timer);
  }
}

/** What a check throws at once is a rejection as well. */
async function start(check: Check, signal: AbortSignal): Promise<Finding | Finding[]> {
  return await check.run(signal);
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function gaveNoAnswer({ limitMs }: Check): Finding {
  return problem(
    `gave no answer within ${limitMs / 1000} s`,
    "look at what slows the machine down, and run it again",
  );
}
