import { join } from "node:path";

/** The command line that starts this program again with other arguments, compiled or from source. */
export function selfCommand(args: string[]): string[] {
  return Bun.isStandaloneExecutable
    ? [process.execPath, ...args]
    : [process.execPath, join(import.meta.dir, "main.ts"), ...args];
}
