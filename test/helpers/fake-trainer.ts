import { chmodSync } from "node:fs";
import { join } from "node:path";

/**
 * Stands in for Python where the real trainer won't fail on demand. It reads the job's name from stdin as `sft.py --prewarm`
 * does, and then runs `body`, a piece of shell in which $PROGRESS names the job's progress file.
 */
export async function fakeTrainer(folder: string, body: string): Promise<string> {
  const file = join(folder, "python");
  await Bun.write(
    file,
    `#!/bin/sh\nread -r JOB || exit 0\nPROGRESS=$(sed -n 's/.*"progress": "\\(.*\\)".*/\\1/p' "$JOB")\n${body}\n`,
  );
  chmodSync(file, 0o755);
  return file;
}
