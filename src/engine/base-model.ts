import { UsageError } from "../errors.ts";
import { baseModelProblems, type ModelUse } from "./base-model-check.ts";

/** Refuses a folder that cannot be served and trained, with the first thing that is wrong and its remedy. */
export function checkBaseModel(folder: string, use: ModelUse = {}): void {
  const [problem] = baseModelProblems(folder, use);
  if (problem !== undefined) throw new UsageError(`the model ${folder}: ${problem.message}`, problem.remedy);
}
