import { selfCommand } from "../../src/self.ts";

export interface AglOutcome {
  code: number;
  out: string;
  err: string;
}

/** Runs the program to its end in a folder. */
export async function runAgl(
  args: string[],
  cwd: string,
  environment: Record<string, string> = {},
): Promise<AglOutcome> {
  const child = Bun.spawn(selfCommand(args), {
    cwd,
    env: { PATH: process.env["PATH"] ?? "", ...environment },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, out, err };
}
