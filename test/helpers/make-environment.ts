import { ensureEnvironment } from "../../src/engine/python-environment.ts";
import { silentLogger } from "../../src/log.ts";

/** Makes an environment in a process of its own, so that it can be killed; prints progress and the result. */
if (import.meta.main) {
  const options = JSON.parse(process.argv[2] ?? "{}");
  const made = await ensureEnvironment({
    ...options,
    log: silentLogger,
    onProgress: (line) => console.log(line),
    signal: new AbortController().signal,
  });
  console.log(JSON.stringify(made));
}
