import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { signalProcess } from "./process-tree.ts";

const pattern = /^agl-(\d+)-/;

export interface ScratchFolder {
  path: string;
  remove(): void;
}

/**
 * A folder for what a child leaves in its TMPDIR: vLLM's sockets and files stay there when it is killed. Those of
 * processes that are gone are removed first. The path is short, since sockets lie in it.
 */
export function makeScratchFolder(parent: string = tmpdir()): ScratchFolder {
  for (const name of readdirSync(parent)) {
    const pid = pattern.exec(name)?.[1];
    if (pid !== undefined && !signalProcess(Number(pid), 0)) removeQuietly(join(parent, name));
  }
  const path = mkdtempSync(join(parent, `agl-${process.pid}-`));
  return { path, remove: () => removeQuietly(path) };
}

function removeQuietly(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // It belongs to somebody else, or is still in use; a later start tries again.
  }
}
