import { traceAdapters } from "../adapter/adapters.ts";
import { countsText } from "../algorithm/report.ts";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import { exportFilters, type ExportKind, filtersOf } from "../inspect/export-kinds.ts";
import { exportedLines } from "../inspect/exported.ts";
import type { RolloutFilter } from "../inspect/paging.ts";
import { openSource } from "../inspect/source.ts";
import type { StoreReading } from "../store/store-reader.ts";
import { accessToken } from "./access-token.ts";
import { LineOutput } from "./line-output.ts";
import type { ExportOptions } from "./inspection-options.ts";

/** `agl export WHAT`: JSON lines, as the store holds them. */
export async function exportLines(
  config: Config,
  {
    args,
    own,
    environment,
  }: { args: string[]; own: Record<string, unknown>; environment: Record<string, string | undefined> },
): Promise<number> {
  const kind = args[0] as ExportKind;
  const options = own as ExportOptions;
  requireUsedFilters(kind, options);
  const token = accessToken(config, environment);
  const source = await openSource({ ...options, token, runs: config.runs });
  const leftOut: Record<string, number> = {};
  const withoutCall = { reward: 0, rollout: 0 };
  try {
    await requireRollouts(source.reading, options.rollout ?? []);
    const lines = exportedLines(kind, source.reading, {
      filter: rolloutFilter(options),
      ...(options.attempt === undefined ? {} : { attempts: options.attempt }),
      ...(options.name === undefined ? {} : { names: options.name }),
      rules: { rule: config["selection.rule"], adapter: traceAdapters[config.adapter] },
      onWithoutCall: (what) => void (withoutCall[what] += 1),
      onLeftOut: (reason) => (leftOut[reason] = (leftOut[reason] ?? 0) + 1),
    });
    await writeAll(lines, new LineOutput(options.output));
  } finally {
    await source.close();
  }
  if (Object.keys(leftOut).length > 0) {
    process.stderr.write(`calls that are no ${kind}: ${countsText(leftOut)}\n`);
  }
  if (withoutCall.rollout > 0)
    process.stderr.write(`ended rollouts without a call: ${withoutCall.rollout}\n`);
  if (withoutCall.reward > 0) process.stderr.write(`rewards without a call: ${withoutCall.reward}\n`);
  return 0;
}

function rolloutFilter({ rollout, status, mode, since, until }: ExportOptions): RolloutFilter {
  return {
    ...(rollout === undefined ? {} : { rolloutIds: rollout }),
    ...(status === undefined ? {} : { statuses: status }),
    ...(mode === undefined ? {} : { modes: mode }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

function requireUsedFilters(kind: ExportKind, options: ExportOptions): void {
  const idle = exportFilters.find((name) => options[name] !== undefined && !filtersOf[kind].includes(name));
  if (idle === undefined) return;
  const used = filtersOf[kind].map((name) => `--${name}`).join(", ");
  throw new UsageError(
    `--${idle} does not choose among ${kind === "all" ? "everything" : kind}`,
    used === "" ? "leave it out; they are written whole" : `leave it out; what does: ${used}`,
  );
}

async function writeAll(lines: AsyncIterable<string>, output: LineOutput): Promise<void> {
  try {
    for await (const line of lines) if (!(await output.line(line))) break;
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
