import { traceAdapters } from "../adapter/adapters.ts";
import { countsText } from "../algorithm/report.ts";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { ExportKind } from "../inspect/export-kinds.ts";
import { exported } from "../inspect/exported.ts";
import { openSource } from "../inspect/source.ts";
import { stringifyJson } from "../protocol/json.ts";
import type { StoreReading } from "../store/store-reader.ts";
import { LineOutput } from "./line-output.ts";
import type { ExportOptions } from "./inspection-options.ts";

/** `agl export WHAT`: JSON lines, as the store holds them. */
export async function exportLines(
  config: Config,
  { args, own }: { args: string[]; own: Record<string, unknown> },
): Promise<number> {
  const kind = args[0] as ExportKind;
  const options = own as ExportOptions;
  const source = await openSource({ ...options, runs: config.runs });
  const leftOut: Record<string, number> = {};
  const filter = {
    ...(options.rollout === undefined ? {} : { rolloutIds: options.rollout }),
    ...(options.status === undefined ? {} : { statuses: options.status }),
    ...(options.mode === undefined ? {} : { modes: options.mode }),
  };
  try {
    await requireRollouts(source.reading, options.rollout ?? []);
    const objects = exported(kind, source.reading, {
      filter,
      rules: { rule: config["selection.rule"], adapter: traceAdapters[config.adapter] },
      onLeftOut: (reason) => (leftOut[reason] = (leftOut[reason] ?? 0) + 1),
    });
    await writeAll(objects, new LineOutput(options.output));
  } finally {
    await source.close();
  }
  if (Object.keys(leftOut).length > 0) {
    process.stderr.write(`calls that are no ${kind}: ${countsText(leftOut)}\n`);
  }
  return 0;
}

async function writeAll(objects: AsyncIterable<object>, output: LineOutput): Promise<void> {
  try {
    for await (const object of objects) {
      if (!(await output.line(stringifyJson(object)))) break;
    }
    await output.close();
  } catch (error) {
    output.abandon();
    throw error;
  }
}

async function requireRollouts(store: StoreReading, rolloutIds: string[]): Promise<void> {
  for (const rolloutId of rolloutIds) {
    if ((await store.getRollout(rolloutId)) !== null) continue;
    throw new UsageError(
      `--rollout: there is no rollout ${rolloutId}`,
      "`agl show` finds ids by their beginning",
    );
  }
}
