import { adaptProxySpans } from "../adapter/proxy-adapter.ts";
import type { EngineCheckpoint } from "../engine/vllm.ts";
import { spanNames } from "../protocol/semconv.ts";
import { summariseTraining } from "./evaluation.ts";
import type { Improvement } from "./improvement.ts";
import { rollOut } from "./published-rollouts.ts";
import { createRandom } from "./random.ts";
import type { IterationReport } from "./report.ts";
import type { FinishedRollout } from "./rollouts.ts";
import { selectRows } from "./select.ts";
import { Stopwatch } from "./stopwatch.ts";
import { replaceWeights, trainVersion } from "./weights.ts";

/** One iteration up to the swap: roll out, score, select, train. Without anything to learn from there is no next checkpoint. */
export async function playRound(
  run: Improvement,
  iteration: number,
  current: EngineCheckpoint,
): Promise<{ report: IterationReport; next?: EngineCheckpoint }> {
  const { settings } = run;
  const clock = new Stopwatch();
  // The trainer's imports take half of its time; they need no GPU and can run beside the rollouts.
  const trainer = run.startTrainer();
  try {
    const rollouts = await clock.time("rollouts", () =>
      rollOut(run, {
        tasks: createRandom(settings.seed * 1_000 + iteration).shuffle([...run.tasks.train]),
        mode: "train",
        sampling: settings.model.sampling_parameters,
        metadata: { purpose: "train", iteration },
        label: `iteration ${iteration} rollouts`,
      }),
    );
    const selection = await clock.time("rows", async () => select(run, iteration, rollouts));
    const report = describeRound(iteration, rollouts, selection, clock.seconds);
    if (selection.noUpdate !== undefined) return { report: { ...report, reason: selection.noUpdate } };
    const trained = await clock.time("train", () =>
      trainVersion(run, trainer, iteration, current, selection.kept),
    );
    report.training = {
      steps: trained.result.steps,
      loss_before: trained.result.loss_before,
      loss_after: trained.result.loss_after,
    };
    report.served = await clock.time("swap", () => replaceWeights(run, trained.checkpoint, trained.result));
    report.updated = true;
    return { report, next: trained.checkpoint };
  } finally {
    await trainer.stop();
  }
}

function select(run: Improvement, iteration: number, rollouts: FinishedRollout[]) {
  const { rule, fraction, seed, shuffleRewards, maxModelLen, model } = run.settings;
  return selectRows({
    rollouts: rollouts.map(({ rollout, spans }) => ({
      rollout_id: rollout.rollout_id,
      status: rollout.status,
      ...adaptProxySpans(spans),
    })),
    rule,
    fraction,
    seed: seed * 1_000 + iteration,
    shuffleRewards,
    maxLength: Math.min(maxModelLen, model.training.max_length),
  });
}

function describeRound(
  iteration: number,
  rollouts: FinishedRollout[],
  selection: ReturnType<typeof select>,
  seconds: Record<string, number>,
): IterationReport {
  const failures = countBy(rollouts.map(({ failure }) => failure).filter((failure) => failure !== undefined));
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0);
  return {
    iteration,
    rollouts: rollouts.length,
    succeeded: rollouts.length - failed,
    failed,
    failures,
    without_calls: rollouts.filter(({ failure, spans }) => failure === undefined && !hasCall(spans)).length,
    reward: summariseTraining(rollouts),
    rows: { kept: selection.noUpdate === undefined ? selection.kept.length : 0, dropped: selection.dropped },
    seconds,
    updated: false,
  };
}

function countBy(names: string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

function hasCall(spans: FinishedRollout["spans"]): boolean {
  return spans.some(({ name }) => name === spanNames.rawRequest);
}
