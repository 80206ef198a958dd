import type { AlgorithmContext } from "./algorithm.ts";
import { summariseTraining } from "./evaluation.ts";
import { rollOut } from "./published-rollouts.ts";
import { createRandom } from "./random.ts";
import type { IterationReport } from "./report.ts";
import type { FinishedRollout } from "./rollouts.ts";
import { type Selection, selectRows } from "./select.ts";
import { Stopwatch } from "./stopwatch.ts";

/** One iteration up to the swap: roll out, score, select, train. With nothing to learn from, nothing is trained. */
export async function playRound(context: AlgorithmContext, iteration: number): Promise<IterationReport> {
  const { settings, engine, train } = context;
  const clock = new Stopwatch();
  // The trainer's imports take much of its time; they need no GPU and can run beside the rollouts.
  if (engine.canTrain) engine.prepareTraining();
  const rollouts = await clock.time("rollouts", () =>
    rollOut(context, {
      tasks: createRandom(settings.seed * 1_000 + iteration).shuffle([...train]),
      mode: "train",
      sampling: settings.model.sampling_parameters,
      metadata: { purpose: "train", iteration },
      label: `iteration ${iteration} rollouts`,
    }),
  );
  const selection = await clock.time("rows", async () => selectRollouts(context, iteration, rollouts));
  const report = describeRound(iteration, rollouts, selection, clock.seconds);
  const reason = whyNoUpdate(context, report, selection);
  if (reason !== undefined) return { ...report, reason };
  const trained = await clock.time("train", () => engine.train(selection.kept, `version_${iteration}`));
  const { steps, loss_before, loss_after, seconds } = trained.result;
  report.training = { steps, loss_before, loss_after, seconds };
  const { gpu, ...served } = await clock.time("swap", async () => {
    await context.proxy.flush();
    return await engine.serve(trained);
  });
  report.served = served;
  if (gpu !== undefined) report.gpu = gpu;
  return { ...report, updated: true };
}

function whyNoUpdate(
  { engine }: AlgorithmContext,
  { succeeded, without_calls }: IterationReport,
  selection: Selection,
): string | undefined {
  if (succeeded > 0 && without_calls === succeeded) {
    return (
      `none of the ${succeeded} succeeded rollouts made a recorded call: ` +
      "the agent has to use the address and the client that it is given"
    );
  }
  return engine.canTrain ? selection.noUpdate : "the engine is not ours and takes no new weights";
}

/** The rows that a round would train on, and why the others are left out. */
export function selectRollouts(
  context: AlgorithmContext,
  iteration: number,
  rollouts: FinishedRollout[],
): Selection {
  const { rule, fraction, seed, shuffleRewards, maxModelLen, model } = context.settings;
  return selectRows({
    rollouts: rollouts.map(({ rollout, spans }) => ({
      rollout_id: rollout.rollout_id,
      status: rollout.status,
      ...context.adapter(spans),
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
  selection: Selection,
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
    without_calls: rollouts.filter(
      ({ failure, rollout }) =>
        failure === undefined && selection.rolloutsWithoutCalls.includes(rollout.rollout_id),
    ).length,
    reward: summariseTraining(rollouts),
    rows: {
      kept: selection.noUpdate === undefined ? selection.kept.length : 0,
      dropped: selection.dropped,
      candidates: selection.candidates.rows,
      distinct_responses: selection.candidates.distinctResponses,
      rewards_without_call: selection.rewardsWithoutCall,
    },
    seconds,
    updated: false,
  };
}

function countBy(names: string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
