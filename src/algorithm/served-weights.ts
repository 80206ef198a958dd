import type { Quantization } from "../engine/gpu-serving.ts";
import type { Profile } from "../engine/profile.ts";
import { AglError } from "../errors.ts";

/** Log-probabilities of one sequence under the weights before and after a training, by a transformers forward pass. */
export interface Probe {
  ids: number[];
  /** One number a token from the second on. */
  before: number[];
  after: number[];
}

export interface ServedDifference {
  /** Mean absolute difference of log-probabilities between what is served and the new weights. */
  to_new: number;
  /** The same, to the weights before. */
  to_old: number;
}

/**
 * Rounding alone makes vLLM and transformers differ on the same weights. Mean absolute differences seen: 0.001 to 0.002 on
 * the CPU with 5 layers, 0.06 on a GPU with 30, where both sides round to 16 bits. Trained successors differed from their
 * bases by 0.03 and 0.8. The limit tells apart other weights altogether; that it is the new version and not the old one is
 * told by which of them is nearer.
 */
export function acceptedDifference(profile: Profile, quantization: Quantization = "none"): number {
  if (profile === "cpu") return 0.01;
  return quantization === "none" ? 0.1 : 0.15;
}

/** A large change leaves no doubt, however much rounding there is. */
const acceptedShareOfChange = 0.25;

export async function differenceToServed(
  probes: Probe[],
  served: (ids: number[]) => Promise<number[]>,
): Promise<ServedDifference> {
  let toNew = 0;
  let toOld = 0;
  let tokens = 0;
  for (const probe of probes) {
    for (const [index, logprob] of (await served(probe.ids)).entries()) {
      toNew += Math.abs(logprob - (probe.after[index] ?? Number.NaN));
      toOld += Math.abs(logprob - (probe.before[index] ?? Number.NaN));
      tokens += 1;
    }
  }
  return { to_new: toNew / tokens, to_old: toOld / tokens };
}

/** Refuses a swap after which the engine still answers from the old weights, or from something else. */
export function assertNewWeights({ to_new, to_old }: ServedDifference, accepted: number): void {
  if (to_new < to_old && to_new <= Math.max(accepted, acceptedShareOfChange * to_old)) return;
  throw new AglError(
    "engine",
    `after the swap the engine does not serve the new weights: its log-probabilities differ by ${to_new.toFixed(4)} ` +
      `from the new checkpoint and by ${to_old.toFixed(4)} from the old one`,
    { remedy: "use engine.between = restart" },
  );
}
