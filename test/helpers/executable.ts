import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A shell script in a folder, to stand for a program of that name. */
export function executable(folder: string, name: string, script: string): string {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
}
