import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../errors.ts";

/** The kernel's limit for a Unix socket's path, the closing zero left out. */
const maxSocketPathBytes = process.platform === "darwin" ? 103 : 107;

export interface PrivateSocket {
  path: string;
  remove(): void;
}

/**
 * A path for a Unix socket in a folder only this user can enter: below `folder` when that is short enough, else in the
 * system's temporary folder.
 */
export function privateSocket(folder: string, temporary: string = tmpdir()): PrivateSocket {
  const preferred = join(folder, "engine.sock");
  if (fits(preferred)) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o700);
    // A killed run may have left one.
    rmSync(preferred, { force: true });
    return { path: preferred, remove: () => rmSync(preferred, { force: true }) };
  }
  if (!fits(join(temporary, "agl-XXXXXX", "engine.sock"))) {
    throw new UsageError(
      `the engine's socket path would be too long: ${preferred} and ${temporary} both exceed ${maxSocketPathBytes} bytes`,
      "run in a folder with a shorter path, or set TMPDIR to a short one",
    );
  }
  const own = mkdtempSync(join(temporary, "agl-"));
  return { path: join(own, "engine.sock"), remove: () => rmSync(own, { recursive: true, force: true }) };
}

function fits(path: string): boolean {
  return Buffer.byteLength(path) <= maxSocketPathBytes;
}
