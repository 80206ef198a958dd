import type { Logger } from "../log.ts";
import { silentLogger } from "../log.ts";
import { readStructured } from "../protocol/python-literal.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";

export interface RewardDimension {
  name: string;
  value: number;
}

type RewardedSpan = Pick<Span, "name" | "attributes"> & Partial<Pick<Span, "span_id">>;

/** The reward a span carries, or null. 0 is a reward. */
export function rewardOf(span: RewardedSpan, log: Logger = silentLogger): number | null {
  const primary = rewardDimensions(span, log)[0];
  if (primary !== undefined) return primary.value;
  const agentOps = agentOpsReward(span.attributes);
  if (agentOps !== undefined) return agentOps;
  return legacyReward(span);
}

/** What lies below it belongs to finding a reward, for example the calls of a judge. */
export function isRewardSpan(span: RewardedSpan, log: Logger = silentLogger): boolean {
  return (
    rewardOf(span, log) !== null ||
    (span.name === spanNames.operation && span.attributes[attributeKeys.operationName] === spanNames.reward)
  );
}

/** The dimensions from index 0 on, up to the first that is missing or has no finite number. */
export function rewardDimensions(span: RewardedSpan, log: Logger = silentLogger): RewardDimension[] {
  const { attributes } = span;
  const prefix = `${attributeKeys.rewardPrefix}.`;
  const keys = Object.keys(attributes).filter((key) => key.startsWith(attributeKeys.rewardPrefix));
  if (keys.length === 0) return [];
  const dimensions: RewardDimension[] = [];
  for (let index = 0; ; index += 1) {
    const value = attributes[`${prefix}${index}.value`];
    if (typeof value !== "number" || !Number.isFinite(value)) break;
    const name = attributes[`${prefix}${index}.name`];
    dimensions.push({ name: typeof name === "string" ? name : String(index), value });
  }
  const known = keys.filter((key) => isDimensionKey(key, dimensions.length));
  if (known.length < keys.length) {
    log.warning("reward attributes that make no dimension are ignored", {
      span_id: span.span_id ?? "",
      keys: keys.filter((key) => !known.includes(key)).slice(0, 10),
    });
  }
  return dimensions;
}

function isDimensionKey(key: string, count: number): boolean {
  const index = /^agentlightning\.reward\.(0|[1-9]\d*)\.(?:name|value)$/.exec(key)?.[1];
  return index !== undefined && Number(index) < count;
}

/** Undefined: no AgentOps reward here, look further. Null: there is one, and it is empty. */
function agentOpsReward(attributes: Attributes): number | null | undefined {
  for (const key of ["agentops.task.output", "agentops.entity.output"]) {
    const output = readStructured(attributes[key]);
    if (!isRecord(output) || output.type !== "reward") continue;
    return asReward(output.value);
  }
  return undefined;
}

/** Spans of the 0.2 line are named `agentlightning.reward`; 0.3 looks for them under `agentlightning.annotation`. */
function legacyReward(span: RewardedSpan): number | null {
  const named = span.name === spanNames.annotation || span.name === spanNames.reward;
  return named ? asReward(span.attributes.reward) : null;
}

function asReward(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function isRecord(value: unknown): value is { [key: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The last reward in the given order, or null. */
export function finalReward(spans: readonly RewardedSpan[]): number | null {
  for (const span of spans.toReversed()) {
    const reward = rewardOf(span);
    if (reward !== null) return reward;
  }
  return null;
}
