import type { Algorithm, AlgorithmContext } from "../algorithm/algorithm.ts";
import { rollOut } from "../algorithm/published-rollouts.ts";
import { selectRollouts } from "../algorithm/round.ts";
import { countsText } from "../algorithm/report.ts";
import type { FinishedRollout } from "../algorithm/rollouts.ts";
import type { Config, ResolvedConfig } from "../config.ts";
import { storyLines } from "../inspect/story-lines.ts";
import { tellStory } from "../inspect/story.ts";
import { accessToken } from "./access-token.ts";
import { runAlgorithm } from "./algorithm-run.ts";

/** `agl dev`: a few tasks, told call by call, with the rows that they would become. Nothing is trained. */
export function dev(
  config: Config,
  {
    sources,
    environment,
  }: { sources: ResolvedConfig["sources"]; environment: Record<string, string | undefined> },
): Promise<number> {
  const tasks = config["tasks.dev"];
  const inMemory = sources["store.db"] === "default";
  return runAlgorithm(
    {
      ...config,
      "tasks.train_limit": tasks,
      // Read, as every run has some, and not used.
      "tasks.validation": config["tasks.validation"] ?? config["tasks.train"],
      "tasks.validation_limit": 1,
    },
    {
      ownRunners: true,
      storeUrl: config["store.url"],
      token: accessToken(config, environment),
      sources,
      storePath: inMemory ? ":memory:" : config["store.db"],
      algorithm: async (context) => {
        await dryRun(context, config["selection.rule"]);
        if (inMemory)
          context.say("the rollouts were kept in memory; --store-db FILE keeps them for `agl show`");
      },
    },
  );
}

async function dryRun(context: AlgorithmContext, rule: Config["selection.rule"]): ReturnType<Algorithm> {
  const { settings, store, train, say } = context;
  const rollouts = await rollOut(context, {
    tasks: train,
    mode: "train",
    sampling: settings.model.sampling_parameters,
    metadata: { purpose: "dev" },
    label: "dev rollouts",
  });
  await context.proxy.flush();
  for (const { rollout } of rollouts) {
    say("");
    const story = await tellStory(store, rollout, { attemptId: null, rule, adapter: context.adapter });
    for (const line of storyLines(story)) say(line);
  }
  say("");
  for (const line of verdictLines(context, rollouts)) say(line);
}

/** What a round with just these rollouts would learn from. */
function verdictLines(context: AlgorithmContext, rollouts: FinishedRollout[]): string[] {
  const selection = selectRollouts(context, 1, rollouts);
  const { rule, fraction } = context.settings;
  return [
    `selection ${rule}, fraction ${fraction}: ${selection.kept.length} rows would be trained on, left out: ${countsText(selection.dropped)}`,
    ...(selection.noUpdate === undefined
      ? []
      : [`a round like this makes no new version: ${selection.noUpdate}`]),
    "nothing was trained",
  ];
}
