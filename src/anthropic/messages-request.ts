import { isJsonObject, stringifyJson } from "../protocol/json.ts";
import type { JsonObject } from "../protocol/types.ts";

/**
 * An Anthropic Messages request as the chat completion that vLLM makes of it, so that token ids can be asked for.
 * Null where only the server can tell: whatever it refuses, and what depends on its chat template (system
 * messages between others, thinking turned off, tools that come and go).
 */
export function chatRequestOf(body: JsonObject): JsonObject | null {
  try {
    return translate(body);
  } catch (error) {
    if (error instanceof Untranslatable) return null;
    throw error;
  }
}

class Untranslatable extends Error {}

/** Members of vLLM's own, in both requests. */
export const vllmMembers = [
  "watermarking",
  "cache_salt",
  "kv_transfer_params",
  "ec_transfer_params",
  "vllm_xargs",
  "chat_template_kwargs",
];
/** Members that have the same name and meaning in both requests. */
const sharedMembers = ["temperature", "top_p", "top_k", ...vllmMembers];

function translate(body: JsonObject): JsonObject {
  requireLimit(body.max_tokens);
  const messages = [...systemMessages(body.system), ...listOf(body.messages).flatMap(messagesOf)];
  // The server names the second one when it is too large.
  const limit = { max_tokens: body.max_tokens, max_completion_tokens: body.max_tokens };
  const shared = sharedMembers.filter((name) => isGiven(body[name])).map((name) => [name, body[name]]);
  return {
    messages,
    ...limit,
    ...Object.fromEntries(shared),
    ...(isGiven(body.stop_sequences) ? { stop: body.stop_sequences } : {}),
    ...streaming(body.stream),
    ...outputMembers(body.output_config),
    ...thinkingMembers(body.thinking, body.max_tokens),
    ...toolMembers(body.tools, body.tool_choice),
  };
}

function systemMessages(system: unknown): JsonObject[] {
  if (!isGiven(system) || system === "") return [];
  const texts = typeof system === "string" ? [system] : listOf(system).map(systemText);
  const content = texts.join("");
  return content === "" ? [] : [{ role: "system", content }];
}

/** A header of Claude Code that changes with every request is none of the prompt. */
function systemText(block: JsonObject): string {
  if (block.type !== "text" || typeof block.text !== "string") throw new Untranslatable();
  return block.text.startsWith("x-anthropic-billing-header") ? "" : block.text;
}

function messagesOf({ role, content }: JsonObject): JsonObject[] {
  if (role !== "user" && role !== "assistant") throw new Untranslatable();
  if (typeof content === "string") return [{ role, content }];
  const blocks = listOf(content);
  const results = role === "user" ? blocks.filter(({ type }) => type === "tool_result") : [];
  const rest = blocks.filter((block) => !results.includes(block));
  const message: JsonObject = { role, ...messageMembers(rest) };
  const isEmpty = role === "user" && message.content === undefined;
  return [...results.flatMap(toolResult), ...(isEmpty ? [] : [message])];
}

function messageMembers(blocks: JsonObject[]): JsonObject {
  const parts = blocks.flatMap(contentParts);
  const calls = blocks.filter(({ type }) => type === "tool_use").map(toolCall);
  const reasoning = blocks.filter(({ type, thinking }) => type === "thinking" && isGiven(thinking));
  const [first] = parts;
  const content = parts.length === 1 && first?.type === "text" ? first.text : parts;
  return {
    ...(reasoning.length > 0 ? { reasoning: reasoning.map(({ thinking }) => thinking).join("") } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(parts.length > 0 ? { content } : {}),
  };
}

function contentParts(block: JsonObject): JsonObject[] {
  switch (block.type) {
    case "text":
      return typeof block.text === "string" && block.text !== "" ? [{ type: "text", text: block.text }] : [];
    case "image":
      return [{ type: "image_url", image_url: { url: imageUrl(block.source) } }];
    case "thinking":
    case "redacted_thinking":
    case "tool_use":
      return [];
  }
  throw new Untranslatable();
}

function toolCall({ id, name, input }: JsonObject): JsonObject {
  if (typeof id !== "string" || typeof name !== "string") throw new Untranslatable();
  return { id, type: "function", function: { name, arguments: stringifyJson(input ?? {}) } };
}

function toolResult({ tool_use_id: id, content }: JsonObject): JsonObject[] {
  const items = typeof content === "string" ? [{ type: "text", text: content }] : listOf(content ?? []);
  const texts = items.filter(({ type }) => type === "text").map(({ text }) => text ?? "");
  const images = items.filter(({ type }) => type === "image");
  if (texts.length + images.length < items.length) throw new Untranslatable();
  const urls = images.map(({ source }) => ({ type: "image_url", image_url: { url: imageUrl(source) } }));
  return [
    { role: "tool", tool_call_id: id ?? "", content: texts.join("\n") },
    ...(urls.length > 0 ? [{ role: "user", content: urls }] : []),
  ];
}

function imageUrl(source: unknown): unknown {
  if (!isJsonObject(source)) throw new Untranslatable();
  if (source.type === "url") return source.url ?? "";
  return `data:${String(source.media_type ?? "image/jpeg")};base64,${String(source.data ?? "")}`;
}

function streaming(stream: unknown): JsonObject {
  if (!isGiven(stream) || stream === false) return {};
  if (stream !== true) throw new Untranslatable();
  return { stream, stream_options: { include_usage: true, continuous_usage_stats: true } };
}

const sharedEfforts = ["low", "medium", "high"];

function outputMembers(config: unknown): JsonObject {
  if (!isGiven(config)) return {};
  if (!isJsonObject(config)) throw new Untranslatable();
  const { format, effort } = config;
  if (isGiven(effort) && !sharedEfforts.includes(String(effort))) throw new Untranslatable();
  const schema = isJsonObject(format) ? format.schema : undefined;
  return {
    ...(isGiven(schema)
      ? { response_format: { type: "json_schema", json_schema: { name: "json_schema", schema } } }
      : {}),
    ...(isGiven(effort) ? { reasoning_effort: effort } : {}),
  };
}

function thinkingMembers(thinking: unknown, maxTokens: unknown): JsonObject {
  if (!isGiven(thinking)) return {};
  if (!isJsonObject(thinking)) throw new Untranslatable();
  const { type, budget_tokens: budget } = thinking;
  if (type === "adaptive") return {};
  const allowed = typeof budget === "number" && budget >= 1024 && budget < Number(maxTokens);
  if (type !== "enabled" || !allowed) throw new Untranslatable();
  return { thinking_token_budget: budget };
}

const toolChoices: { [type: string]: string } = { auto: "auto", any: "required", none: "none" };

function toolMembers(tools: unknown, choice: unknown): JsonObject {
  // Not the same as none: vLLM then still reads calls out of the text.
  if (!isGiven(tools) && !isGiven(choice)) return { tool_choice: null };
  const definitions = listOf(tools).map(toolDefinition);
  if (definitions.length === 0) throw new Untranslatable();
  return {
    tools: definitions,
    ...(isGiven(choice) ? choiceMembers(choice, definitions) : { tool_choice: "auto" }),
  };
}

function choiceMembers(choice: unknown, definitions: ToolDefinition[]): JsonObject {
  if (!isJsonObject(choice)) throw new Untranslatable();
  const { type, name, disable_parallel_tool_use: disabled } = choice;
  const named = definitions.some((definition) => definition.function.name === name);
  const chosen =
    type === "tool" && named ? { type: "function", function: { name } } : toolChoices[String(type)];
  if (chosen === undefined) throw new Untranslatable();
  return { tool_choice: chosen, parallel_tool_calls: disabled !== true };
}

interface ToolDefinition extends JsonObject {
  function: JsonObject;
}

function toolDefinition({
  name,
  description,
  input_schema: schema,
  strict,
  defer_loading,
}: JsonObject): ToolDefinition {
  if (typeof name !== "string" || !isJsonObject(schema) || isGiven(defer_loading)) throw new Untranslatable();
  const parameters = "type" in schema ? schema : { ...schema, type: "object" };
  const given = { ...(isGiven(description) ? { description } : {}), ...(isGiven(strict) ? { strict } : {}) };
  return { type: "function", function: { name, ...given, parameters } };
}

function listOf(value: unknown): JsonObject[] {
  if (!Array.isArray(value) || !value.every(isJsonObject)) throw new Untranslatable();
  return value as JsonObject[];
}

function requireLimit(maxTokens: unknown): void {
  if (!Number.isSafeInteger(maxTokens) || (maxTokens as number) <= 0) throw new Untranslatable();
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}
