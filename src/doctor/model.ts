import { readdirSync } from "node:fs";
import { readModelSettings } from "../algorithm/model-settings.ts";
import { baseModelProblems, type ModelUse } from "../engine/base-model-check.ts";
import { findBaseModel } from "../engine/base-model-source.ts";
import { gpuArguments } from "../engine/gpu-arguments.ts";
import { planModel } from "../engine/gpu-plan.ts";
import { readableSize } from "../engine/model-memory.ts";
import { readModelShape } from "../engine/model-shape.ts";
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
  const plan =
    use.gpu === undefined ? undefined : planModel(use.gpu, readModelShape(folder), length, use.purpose);
  const served = plan?.maxModelLen ?? length;
  const { totals } = measureWeights(folder, readdirSync(folder));
  const size = `${(totals.parameters / 1e6).toFixed(1)} million parameters, ${readableSize(totals.bytes)}`;
  const whole = ok(`${folder}: ${size}, context ${served}`);
  if (plan === undefined) return [whole];
  return [
    whole,
    ...plan.explanation.map(ok),
    ok(`fits: --max-model-len ${served} ${gpuArguments(plan).join(" ")}`),
    ...plan.notes.map(ok),
  ];
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
