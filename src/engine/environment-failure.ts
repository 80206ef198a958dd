import { statfsSync } from "node:fs";
import { AglError } from "../errors.ts";
import { causeOf, type ProgramRun } from "./run-program.ts";

const noSpace = /No space left on device|os error 28/i;
const noNetwork =
  /error sending request|dns error|network (connectivity is|was) disabled|not found in the cache|failed to fetch|connection refused|timed out/i;

/** Throws when making an environment would fill the disk. */
export function checkDisk(folder: string, neededBytes: number): void {
  const free = freeBytes(folder);
  if (free >= neededBytes) return;
  throw new AglError(
    "environment",
    `making the Python environment takes ${gigabytes(neededBytes)}, and ${folder} has ${gigabytes(free)} free`,
    { remedy: diskRemedy },
  );
}

const diskRemedy = "free some space, or name another folder with --cache";

/** What a failed `uv pip install` says about the machine: disk, network, or its own cause. */
export function installFailure(done: ProgramRun, folder: string): AglError {
  const text = done.stderr.join("\n");
  if (noSpace.test(text)) {
    return new AglError(
      "environment",
      `the disk filled up while the Python environment was made: ${folder} has ${gigabytes(freeBytes(folder))} free`,
      { remedy: diskRemedy },
    );
  }
  if (noNetwork.test(text)) {
    const line = done.stderr.find((each) => noNetwork.test(each)) ?? "";
    return new AglError(
      "environment",
      `the Python environment is not made yet and its packages cannot be fetched: ${line.trim().replace(/^cause: /, "")}`,
      { remedy: "connect to the network (HTTPS_PROXY is honoured) and run `agl setup`, or set AGL_PYTHON" },
    );
  }
  return failure("the Python packages could not be installed", done);
}

export function failure(what: string, done: ProgramRun): AglError {
  return new AglError("environment", `${what}: ${causeOf(done, done.stderr)}`, {
    remedy: "run `agl setup --log-level debug` to see all of it",
  });
}

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
