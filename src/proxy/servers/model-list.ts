import * as v from "valibot";
import { UsageError } from "../../errors.ts";
import type { JsonObject } from "../../protocol/types.ts";
import { withoutSecrets } from "../../secrets.ts";
import { type Provider, providers, type Upstream } from "./upstreams.ts";

const text = v.pipe(v.string(), v.minLength(1, "is empty"));
const share = v.optional(v.nullable(v.pipe(v.number(), v.finite(), v.minValue(0))));

const entrySchema = v.looseObject({
  model_name: text,
  litellm_params: v.looseObject({
    model: text,
    api_base: v.optional(v.nullable(text)),
    api_key: v.optional(v.nullable(text)),
    weight: share,
    rpm: share,
    tpm: share,
    return_token_ids: v.optional(v.boolean()),
    extra_body: v.optional(v.nullable(v.record(v.string(), v.unknown()))),
  }),
  model_info: v.optional(v.nullable(v.looseObject({ checkpoint: v.optional(text) }))),
});

type Entry = v.InferOutput<typeof entrySchema>;

const weightNames = ["weight", "rpm", "tpm"] as const;
const readNames = new Set(["model", "api_base", "api_key", ...weightNames, "return_token_ids", "extra_body"]);

/** Book-keeping that changes no request. */
const ignoredNames = new Set([
  "input_cost_per_token",
  "output_cost_per_token",
  "input_cost_per_second",
  "output_cost_per_second",
  "max_parallel_requests",
  "tags",
  "use_in_pass_through",
]);

/** They steer LiteLLM itself. To take them silently would promise what this proxy does not do. */
const unsupportedNames = new Set([
  "api_version",
  "additional_drop_params",
  "base_url",
  "cache",
  "client",
  "custom_llm_provider",
  "drop_params",
  "extra_headers",
  "fallbacks",
  "headers",
  "max_retries",
  "mock_response",
  "num_retries",
  "order",
  "organization",
  "region_name",
  "retry_policy",
  "stream_timeout",
  "timeout",
]);

/** What only the agent may decide, or the answer would have a form that it did not ask for. */
const agentsOwn = new Set(["messages", "prompt", "stream", "stream_options", "n"]);

const defaultAddress: Partial<Record<Provider, string>> = { openai: "https://api.openai.com/v1" };

/**
 * Upstream's `model_list`, as LiteLLM reads it. Entries of one name share its calls at random, by `weight`, `rpm` or
 * `tpm` where given. Every other parameter becomes a default of the requests. `os.environ/NAME` is looked up in
 * `environment`.
 */
export function parseModelList(
  list: unknown,
  { environment }: { environment: Record<string, string | undefined> },
): Upstream[] {
  if (!Array.isArray(list)) throw new UsageError("model_list is no list", "It is a JSON array of models.");
  const entries = list.map(readEntry);
  return entries.map((entry, index) => {
    const place = `model_list[${index}]`;
    const group = entries.filter(({ model_name }) => model_name === entry.model_name);
    return toUpstream(entry, { place, weight: weightIn(entry, group, place), environment });
  });
}

function readEntry(value: unknown, index: number): Entry {
  const result = v.safeParse(entrySchema, value);
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = (issue.path ?? []).map(({ key }) => `.${String(key)}`).join("");
  throw new UsageError(
    `model_list[${index}]${path}: ${issue.message}`,
    'An entry is {"model_name": ..., "litellm_params": {"model": "hosted_vllm/ID", "api_base": "http://HOST:PORT/v1"}}.',
  );
}

function toUpstream(
  entry: Entry,
  context: { place: string; weight: number; environment: Record<string, string | undefined> },
): Upstream {
  const { model_name: modelName, litellm_params: parameters, model_info: info } = entry;
  const place = `${context.place}.litellm_params`;
  const { provider, model } = splitModel(parameters.model, place);
  const apiKey = resolveKey(parameters.api_key ?? undefined, place, context.environment);
  if (apiKey === undefined && provider === "openai" && parameters.api_base == null) {
    throw new UsageError(
      `${place}.api_key is missing, and ${defaultAddress.openai} answers nobody without one`,
      "Write os.environ/OPENAI_API_KEY and set that in the environment.",
    );
  }
  return {
    modelName,
    model,
    provider,
    baseUrl: addressOf(parameters.api_base ?? undefined, provider, place),
    checkpoint: info?.checkpoint ?? checkpointOf(model),
    weight: context.weight,
    requestDefaults: defaultsOf(parameters, place),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(parameters.return_token_ids === undefined ? {} : { returnTokenIds: parameters.return_token_ids }),
  };
}

/** Only the first segment is the provider; the model's own id may have more. */
function splitModel(given: string, place: string): { provider: Provider; model: string } {
  const slash = given.indexOf("/");
  const provider = providers.find((name) => name === given.slice(0, slash));
  const model = given.slice(slash + 1);
  if (slash > 0 && provider !== undefined && model !== "") return { provider, model };
  throw new UsageError(
    `${place}.model is ${JSON.stringify(given)}`,
    `It is PROVIDER/MODEL, with ${providers.join(" or ")} as the provider.`,
  );
}

function addressOf(given: string | undefined, provider: Provider, place: string): string {
  const address = given ?? defaultAddress[provider];
  if (address === undefined) {
    throw new UsageError(
      `${place}.api_base is missing`,
      `A model of ${provider} needs its server's address, for example http://127.0.0.1:8000/v1.`,
    );
  }
  const trimmed = address.replace(/\/$/, "");
  if (URL.canParse(trimmed) && /^https?:.*\/v1$/.test(trimmed)) return trimmed;
  throw new UsageError(
    `${place}.api_base is ${JSON.stringify(withoutSecrets(address))}`,
    "It is the server's API address and ends in /v1, for example http://127.0.0.1:8000/v1.",
  );
}

const environmentPrefix = "os.environ/";

function resolveKey(
  given: string | undefined,
  place: string,
  environment: Record<string, string | undefined>,
): string | undefined {
  if (given?.startsWith(environmentPrefix) !== true) return given;
  const name = given.slice(environmentPrefix.length);
  const key = environment[name];
  if (key !== undefined && key !== "") return key;
  throw new UsageError(`${place}.api_key: ${name} is not set`, `Set ${name} in the environment.`);
}

/** `models/version_1` and `version_1` are the same checkpoint; any other model is named by its whole id. */
function checkpointOf(model: string): string {
  return /(?:^|\/)(version_\d+)$/.exec(model)?.[1] ?? model;
}

function defaultsOf(parameters: Entry["litellm_params"], place: string): JsonObject {
  const defaults: JsonObject = {};
  for (const [name, value] of Object.entries({ ...parameters, ...parameters.extra_body })) {
    if (readNames.has(name) || ignoredNames.has(name) || value === null || value === undefined) continue;
    if (unsupportedNames.has(name) || agentsOwn.has(name)) {
      const why = agentsOwn.has(name)
        ? "The agent decides that with each request."
        : "This proxy does not know it.";
      throw new UsageError(`${place}.${name} cannot be set for a model`, `${why} Remove it from the list.`);
    }
    defaults[name] = value;
  }
  return defaults;
}

/** As LiteLLM does it: the first of the names that any entry of the group gives; an entry without it gets nothing. */
function weightIn(entry: Entry, group: Entry[], place: string): number {
  const name = weightNames.find((each) => group.some(({ litellm_params }) => litellm_params[each] != null));
  if (name === undefined) return 1;
  if (group.some(({ litellm_params }) => (litellm_params[name] ?? 0) > 0))
    return entry.litellm_params[name] ?? 0;
  throw new UsageError(
    `${place}.litellm_params.${name}: every entry of ${entry.model_name} has 0`,
    "Give one of them more, or leave it out.",
  );
}
