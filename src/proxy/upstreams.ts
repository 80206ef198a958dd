import { UsageError } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";

export const providers = ["hosted_vllm", "openai"] as const;
/** `hosted_vllm`: knows `return_token_ids`. `openai`: any other server of that API. */
export type Provider = (typeof providers)[number];

/** A model server behind the proxy. */
export interface Upstream {
  /** What clients put into `model`. Several upstreams of one name share its calls. */
  modelName: string;
  /** The id the server itself uses. */
  model: string;
  /** Ends in `/v1`. */
  baseUrl: string;
  /** Connect here instead of to the host of `baseUrl`. */
  unixSocket?: string;
  apiKey?: string;
  /** Which weights answer, for example `version_1`. Written on every span. */
  checkpoint: string;
  provider: Provider;
  /** Whether to ask for token ids; by its provider when absent. */
  returnTokenIds?: boolean;
  /** Share of the calls among upstreams of one name; 1 when absent. */
  weight?: number;
  /** Members of the request where the agent names none. */
  requestDefaults?: JsonObject;
  /** Sampling values the server uses where the agent names none; absent: temperature 1, top_p 1. */
  samplingDefaults?: { [name: string]: number };
}

export interface UpstreamTable {
  /** Replaces the list at once. Whoever picked from the old list keeps what it got. */
  set(list: readonly Upstream[]): void;
  pick(modelName: string): Upstream | undefined;
  names(): string[];
}

export function createUpstreamTable(initial: readonly Upstream[], random: () => number): UpstreamTable {
  let upstreams = initial.map(checked);
  return {
    set(list) {
      upstreams = list.map(checked);
    },
    pick(modelName) {
      return pickByWeight(
        upstreams.filter((upstream) => upstream.modelName === modelName),
        random(),
      );
    },
    names: () => [...new Set(upstreams.map(({ modelName }) => modelName))],
  };
}

export function asksForTokenIds({ returnTokenIds, provider }: Upstream): boolean {
  return returnTokenIds ?? provider === "hosted_vllm";
}

/** `point` is at least 0 and below 1. */
function pickByWeight(group: readonly Upstream[], point: number): Upstream | undefined {
  const total = group.reduce((sum, upstream) => sum + weightOf(upstream), 0);
  let left = point * total;
  for (const upstream of group) {
    left -= weightOf(upstream);
    if (left < 0) return upstream;
  }
  // Rounding may leave a last crumb.
  return group.findLast((upstream) => weightOf(upstream) > 0);
}

function weightOf({ weight = 1 }: Upstream): number {
  return weight;
}

function checked(upstream: Upstream): Readonly<Upstream> {
  for (const field of ["modelName", "model", "checkpoint"] as const) {
    if (upstream[field] === "") throw new UsageError(`upstream: ${field} is empty`);
  }
  if (!(weightOf(upstream) >= 0 && Number.isFinite(weightOf(upstream)))) {
    throw new UsageError(`upstream: weight is ${upstream.weight}`, "It is a number of at least 0.");
  }
  const baseUrl = upstream.baseUrl.replace(/\/$/, "");
  if (!URL.canParse(baseUrl) || !/^https?:.*\/v1$/.test(baseUrl)) {
    throw new UsageError(
      `upstream: baseUrl is ${JSON.stringify(upstream.baseUrl)}`,
      "It is the server's API address and ends in /v1, for example http://127.0.0.1:8000/v1.",
    );
  }
  return Object.freeze({ ...upstream, baseUrl });
}
