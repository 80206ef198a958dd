import { traceAdapters } from "../adapter/adapters.ts";
import type { Config } from "../config.ts";
import { findId } from "../inspect/find-id.ts";
import { openSource } from "../inspect/source.ts";
import { storyLines } from "../inspect/story-lines.ts";
import { tellStory } from "../inspect/story.ts";
import { stringifyJson } from "../protocol/json.ts";
import type { SourceOptions } from "./inspection-options.ts";
import { accessToken } from "./access-token.ts";
import { LineOutput } from "./line-output.ts";

/** `agl show ID`: a rollout with its attempts, or one attempt. */
export async function show(
  config: Config,
  {
    args,
    own,
    json,
    environment,
  }: {
    args: string[];
    own: Record<string, unknown>;
    json: boolean;
    environment: Record<string, string | undefined>;
  },
): Promise<number> {
  const token = accessToken(config, environment);
  const source = await openSource({ ...(own as SourceOptions), token, runs: config.runs });
  try {
    const { rollout, attemptId } = await findId(source.reading, args[0] ?? "");
    const story = await tellStory(source.reading, rollout, {
      attemptId,
      rule: config["selection.rule"],
      adapter: traceAdapters[config.adapter],
    });
    const lines = json ? [storyJson(story)] : storyLines(story);
    const output = new LineOutput();
    for (const line of lines) if (!(await output.line(line))) break;
    await output.close();
    return 0;
  } finally {
    await source.close();
  }
}

/** Opaque values inside keep their spelling, which `stringifyJson` sees to one object at a time. */
function storyJson({ rollout, attempts }: Awaited<ReturnType<typeof tellStory>>): string {
  const told = attempts.map(
    ({ attempt, events }) => `{"attempt":${stringifyJson(attempt)},"events":${JSON.stringify(events)}}`,
  );
  return `{"rollout":${stringifyJson(rollout)},"attempts":[${told.join(",")}]}`;
}
