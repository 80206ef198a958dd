import { UsageError } from "../errors.ts";

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
  provider: "hosted_vllm";
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
      const group = upstreams.filter((upstream) => upstream.modelName === modelName);
      return group[Math.floor(random() * group.length)];
    },
    names: () => [...new Set(upstreams.map(({ modelName }) => modelName))],
  };
}

function checked(upstream: Upstream): Readonly<Upstream> {
  for (const field of ["modelName", "model", "checkpoint"] as const) {
    if (upstream[field] === "") throw new UsageError(`upstream: ${field} is empty`);
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
