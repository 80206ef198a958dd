import { resolveBaseModel } from "../../src/engine/base-model-source.ts";
import { silentLogger } from "../../src/log.ts";

/** Resolves a base model in a process of its own, so that it can be killed; prints progress and the result. */
if (import.meta.main) {
  const resolved = await resolveBaseModel({
    ...JSON.parse(process.argv[2] ?? "{}"),
    log: silentLogger,
    onProgress: (line) => console.log(line),
    signal: new AbortController().signal,
  });
  console.log(JSON.stringify(resolved));
}
