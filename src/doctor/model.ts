import { readdirSync } from "node:fs";
import { readModelSettings } from "../algorithm/model-settings.ts";
import { baseModelProblems, type ModelUse } from "../engine/base-model-check.ts";
import { findBaseModel } from "../engine/base-model-source.ts";
import { readableSize } from "../engine/model-memory.ts";
import { measureWeights } from "../engine/model-weights.ts";
import { type Finding, ok, problem, warning } from "./check.ts";

/** Whether the base model is here and can be served and trained on this machine. */
export function checkModel(
  model: string,
  cacheFolder: string,
  contextLength: number | undefined,
  use: Omit<ModelUse, "contextLength">,
): Finding[] {
  const folder = findBaseModel(model, cacheFolder);
  if (folder === undefined) {
    return [
      warning(
        `${model} is not fetched yet`,
        "it is fetched on first use, which needs a network; gated models need HF_TOKEN",
      ),
    ];
  }
  // A fault of the folder is named before one of its settings, which cannot be read without config.json.
  const faults = baseModelProblems(folder, use);
  if (faults.length > 0) return faults.map((fault) => problem(`${folder}: ${fault.message}`, fault.remedy));
  const length = contextLength ?? readModelSettings(folder).max_model_len;
  const inContext = baseModelProblems(folder, { ...use, contextLength: length });
  if (inContext.length > 0)
    return inContext.map((fault) => problem(`${folder}: ${fault.message}`, fault.remedy));
  const { totals } = measureWeights(folder, readdirSync(folder));
  const size = `${(totals.parameters / 1e6).toFixed(1)} million parameters, ${readableSize(totals.bytes)}`;
  return [ok(`${folder}: ${size}, context ${length}`)];
}

/** Bytes of the weights that are here; 0 when they are not. */
export function modelBytes(model: string, cacheFolder: string): number {
  try {
    const folder = findBaseModel(model, cacheFolder);
    return folder === undefined ? 0 : measureWeights(folder, readdirSync(folder)).totals.bytes;
  } catch {
    // Said by the check of the model.
    return 0;
  }
}
