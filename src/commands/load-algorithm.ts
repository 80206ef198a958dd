import { existsSync } from "node:fs";
import { offerBundledModules } from "../agent/bundled-modules.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { AglError, messageOf, UsageError } from "../errors.ts";

/** A user's algorithm: the function that its file exports as its default. */
export async function loadAlgorithm(file: string): Promise<Algorithm> {
  if (!existsSync(file)) throw new UsageError(`algorithm file ${file} does not exist`, "check the path");
  offerBundledModules(file);
  let module: { default?: unknown };
  try {
    module = (await import(file)) as { default?: unknown };
  } catch (error) {
    throw new AglError("configuration", `algorithm file ${file} cannot be loaded: ${messageOf(error)}`, {
      exitCode: 2,
      remedy: "correct the file; nothing was started",
      cause: error,
    });
  }
  if (typeof module.default !== "function") {
    throw new UsageError(
      `algorithm file ${file} exports no function as its default`,
      "write `export default async function ({ store, engine, train, … }) { … }`",
    );
  }
  return module.default as Algorithm;
}
