import { defaultMembers, objectsOf } from "../../chat/model-request.ts";
import { withMembers } from "../../protocol/json-text.ts";
import type { JsonObject } from "../../protocol/types.ts";
import type { RecordedRoute } from "./recorded-route.ts";
import { ResponseReader } from "./response-reader.ts";
import { asksForTokenIds } from "../servers/upstreams.ts";

/** OpenAI's Responses API. vLLM shows the tokens of both sides when it is asked for its messages. */
export const responsesRoute: RecordedRoute = {
  upstreamPath: "/responses",
  requestText({ text, body }, upstream, recorded) {
    const { model, requestDefaults = {} } = upstream;
    // A background call is answered before there is anything to show.
    const asks = recorded && asksForTokenIds(upstream) && body.background !== true;
    return withMembers(text, {
      ...defaultMembers(body, inResponses(requestDefaults)),
      model: JSON.stringify(model),
      ...(asks ? { enable_response_messages: "true" } : {}),
    });
  },
  reader: ({ modelName, body }, { recorded }) =>
    new ResponseReader(modelName, recorded && body.enable_response_messages !== true),
  chatBody,
};

function inResponses({ max_tokens, max_completion_tokens, ...defaults }: JsonObject): JsonObject {
  const limit = max_completion_tokens ?? max_tokens;
  return limit === undefined ? defaults : { ...defaults, max_output_tokens: limit };
}

function chatBody({ instructions, input, tools, max_output_tokens, ...body }: JsonObject): JsonObject {
  const system = typeof instructions === "string" ? [{ role: "system", content: instructions }] : [];
  const items =
    typeof input === "string" ? [{ role: "user", content: input }] : objectsOf(input).flatMap(messageOf);
  return {
    ...body,
    max_tokens: max_output_tokens,
    messages: [...system, ...items],
    tools: objectsOf(tools).map(toolOf),
  };
}

/** Reasoning and what the server keeps of its own tools are no messages. */
function messageOf(item: JsonObject): JsonObject[] {
  if (item.type === "function_call") {
    const { call_id: id, name, arguments: text } = item;
    const call = { id, type: "function", function: { name, arguments: text } };
    return [{ role: "assistant", content: null, tool_calls: [call] }];
  }
  if (item.type === "function_call_output") {
    return [{ role: "tool", tool_call_id: item.call_id, content: item.output }];
  }
  return typeof item.role === "string" ? [{ role: item.role, content: contentOf(item.content) }] : [];
}

function contentOf(content: unknown): unknown {
  const parts = objectsOf(content);
  const texts = parts.map(({ text }) => text).filter((text) => typeof text === "string");
  return parts.length > 0 && texts.length === parts.length ? texts.join("") : content;
}

function toolOf(tool: JsonObject): JsonObject {
  const { type, name, description, parameters } = tool;
  return type === "function" ? { type, function: { name, description, parameters } } : tool;
}
