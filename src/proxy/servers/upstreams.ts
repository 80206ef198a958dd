import { UsageError } from "../../errors.ts";
import type { JsonObject } from "../../protocol/types.ts";
import { withoutSecrets } from "../../secrets.ts";

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

export function asksForTokenIds({ returnTokenIds, provider }: Upstream): boolean {
  return returnTokenIds ?? provider === "hosted_vllm";
}

/** The same, with its address in one form; an error names what is wrong. */
export function checkUpstream(upstream: Upstream): Readonly<Upstream> {
  for (const field of ["modelName", "model", "checkpoint"] as const) {
    if (upstream[field] === "") throw new UsageError(`upstream: ${field} is empty`);
  }
  const { weight = 1 } = upstream;
  if (!(weight >= 0 && Number.isFinite(weight))) {
    throw new UsageError(`upstream: weight is ${weight}`, "It is a number of at least 0.");
  }
  const baseUrl = upstream.baseUrl.replace(/\/$/, "");
  if (!URL.canParse(baseUrl) || !/^https?:.*\/v1$/.test(baseUrl)) {
    throw new UsageError(
      `upstream: baseUrl is ${JSON.stringify(withoutSecrets(upstream.baseUrl))}`,
      "It is the server's API address and ends in /v1, for example http://127.0.0.1:8000/v1.",
    );
  }
  return Object.freeze({ ...upstream, baseUrl });
}
