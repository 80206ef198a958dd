import { isJsonObject } from "../protocol/json.ts";
import type { JsonObject } from "../protocol/types.ts";

const finishReasons: { [stopReason: string]: string } = {
  end_turn: "stop",
  stop_sequence: "stop",
  max_tokens: "length",
  tool_use: "tool_calls",
};

/** An Anthropic message in the shape of a chat completion. Token ids it has none. */
export function asChatAnswer(message: JsonObject): JsonObject {
  const blocks = (Array.isArray(message.content) ? message.content : []).filter(isJsonObject);
  const tool_calls = blocks.filter(({ type }) => type === "tool_use").map(toolCall);
  const text = textOf(blocks, "text");
  const reasoning = textOf(blocks, "thinking");
  const { input_tokens, output_tokens } = isJsonObject(message.usage) ? message.usage : {};
  return {
    id: message.id,
    object: "chat.completion",
    model: message.model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: text === "" && tool_calls.length > 0 ? null : text,
          ...(reasoning === "" ? {} : { reasoning }),
          ...(tool_calls.length === 0 ? {} : { tool_calls }),
        },
        finish_reason: finishReasons[String(message.stop_reason)] ?? null,
      },
    ],
    usage: { prompt_tokens: input_tokens, completion_tokens: output_tokens },
  };
}

function textOf(blocks: JsonObject[], type: "text" | "thinking"): string {
  return blocks
    .filter((block) => block.type === type)
    .map((block) => String(block[type] ?? ""))
    .join("");
}

function toolCall({ id, name, input }: JsonObject): JsonObject {
  return { id, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } };
}

/** Puts the events of a streamed message together to the message that a plain call would have had. */
export class MessageCollector {
  #message: JsonObject | undefined;
  readonly #blocks: JsonObject[] = [];
  readonly #inputs = new Map<number, string>();
  done = false;
  error: unknown;

  add(event: JsonObject): void {
    if (event.type === "message_stop") this.done = true;
    if (event.type === "error") this.error ??= event.error;
    if (isJsonObject(event.message)) this.#message = event.message;
    const index = Number(event.index);
    if (isJsonObject(event.content_block)) this.#blocks[index] = { ...event.content_block };
    if (isJsonObject(event.usage)) this.#message = { ...this.#message, usage: this.#usage(event.usage) };
    if (!isJsonObject(event.delta)) return;
    if (event.type === "message_delta") this.#message = { ...this.#message, ...event.delta };
    else this.#addDelta(index, event.delta);
  }

  /** Null while no event has come. */
  answer(): JsonObject | null {
    if (this.#message === undefined) return null;
    const content = this.#blocks.map((block, index) => {
      const input = this.#inputs.get(index);
      return input === undefined ? block : { ...block, input: parsed(input) };
    });
    return { ...this.#message, content };
  }

  #usage(usage: JsonObject): JsonObject {
    const before = isJsonObject(this.#message?.usage) ? this.#message.usage : {};
    return { ...before, ...usage };
  }

  #addDelta(index: number, { type, ...delta }: JsonObject): void {
    const block = (this.#blocks[index] ??= {});
    if (type === "input_json_delta") {
      this.#inputs.set(index, (this.#inputs.get(index) ?? "") + String(delta.partial_json ?? ""));
      return;
    }
    for (const [key, value] of Object.entries(delta)) {
      if (typeof value === "string") block[key] = String(block[key] ?? "") + value;
    }
  }
}

/** An input that was cut short stays text. */
function parsed(input: string): unknown {
  try {
    return JSON.parse(input);
  } catch {
    return input;
  }
}
