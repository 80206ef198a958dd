import { chatRequestOf, vllmMembers } from "../../anthropic/messages-request.ts";
import { parseObject } from "../../chat/answer-reader.ts";
import { defaultMembers, isObject } from "../../chat/model-request.ts";
import { parseJson, stringifyJson } from "../../protocol/json.ts";
import { withMembers } from "../../protocol/json-text.ts";
import type { JsonObject } from "../../protocol/types.ts";
import { TranslatedReader, VerbatimReader } from "./messages-readers.ts";
import type { ChooseRoute, RecordedRoute } from "./recorded-route.ts";
import { asksForTokenIds } from "../servers/upstreams.ts";

/**
 * Anthropic's Messages API. vLLM answers it without token ids, so a recorded call is asked as the chat completion
 * that vLLM would make of it. What cannot be translated exactly goes on as it is, and its record says that it has no ids.
 */
export const chooseMessagesRoute: ChooseRoute = (request, upstream, recorded) => {
  const speaksMessages = upstream.provider === "hosted_vllm";
  if (!recorded && speaksMessages) return verbatimRoute;
  const body = chatRequestOf(parseJson(request.text) as JsonObject);
  return body === null ? verbatimRoute : translatedRoute(body);
};

function translatedRoute(chat: JsonObject): RecordedRoute {
  return {
    upstreamPath: "/chat/completions",
    requestText: (_request, upstream, recorded) =>
      withMembers(stringifyJson(upstream.provider === "hosted_vllm" ? chat : withoutVllmMembers(chat)), {
        ...defaultMembers(chat, upstream.requestDefaults ?? {}),
        model: JSON.stringify(upstream.model),
        ...(recorded && asksForTokenIds(upstream) ? { return_token_ids: "true" } : {}),
      }),
    reader: ({ modelName }) => new TranslatedReader(modelName),
    chatBody: () => chat,
    errorText,
  };
}

const onlyForVllm = new Set([...vllmMembers, "max_tokens", "thinking_token_budget", "top_k"]);

/** Other servers refuse what only vLLM knows, and two limits at once. */
function withoutVllmMembers(chat: JsonObject): JsonObject {
  const { max_completion_tokens, tool_choice, stream_options, ...others } = chat;
  const shared = Object.fromEntries(Object.entries(others).filter(([name]) => !onlyForVllm.has(name)));
  return {
    ...shared,
    max_completion_tokens,
    ...(isPresent(tool_choice) ? { tool_choice } : {}),
    ...(stream_options === undefined ? {} : { stream_options: { include_usage: true } }),
  };
}

const verbatimRoute: RecordedRoute = {
  upstreamPath: "/messages",
  requestText: ({ text, body }, { model, requestDefaults = {} }) => {
    const { temperature, top_p, top_k } = requestDefaults;
    const defaults = JSON.parse(JSON.stringify({ temperature, top_p, top_k })) as JsonObject;
    return withMembers(text, { ...defaultMembers(body, defaults), model: JSON.stringify(model) });
  },
  reader: ({ modelName }) => new VerbatimReader(modelName),
  chatBody: ({ system, ...body }) => {
    const messages = Array.isArray(body.messages) ? body.messages : [];
    return isPresent(system)
      ? { ...body, messages: [{ role: "system", content: system }, ...messages] }
      : body;
  },
};

/** Errors of the API itself; what does not even parse is answered in one form for all routes. */
function errorText(text: string): string {
  const error = parseObject(text)?.error;
  if (!isObject(error) || error.type === "Bad Request") return text;
  return JSON.stringify({ type: "error", error: { type: error.type, message: error.message } });
}

function isPresent(value: unknown): boolean {
  return value !== null && value !== undefined;
}
