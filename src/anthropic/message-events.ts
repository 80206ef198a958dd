import { isJsonObject, isJsonText } from "../protocol/json.ts";
import type { JsonObject } from "../protocol/types.ts";
import { newSignature } from "./message-answer.ts";
import { messageUsage } from "./message-usage.ts";
import { stopOf } from "./stop-reason.ts";

type Block =
  | { type: "text" }
  | { type: "thinking"; signature: string }
  | { type: "tool_use"; id: unknown; text: string[] };

/** The chunks of a chat completion as the events of an Anthropic message, event for event as vLLM makes them. */
export class MessageEvents {
  readonly #modelName: string;
  #started = false;
  #block: Block | undefined;
  #index = 0;
  #finishReason: unknown;
  #stopReason: unknown;
  #toolUsed = false;
  /** Arguments of the latest tool call: only the last one can be cut short. */
  #arguments = "";
  readonly #callIds = new Map<unknown, unknown>();

  constructor(modelName: string) {
    this.#modelName = modelName;
  }

  /** The events of one chunk; an empty text when it has none. */
  chunk(chunk: JsonObject): string {
    if (isJsonObject(chunk.error)) return errorEvent(chunk.error);
    if (!this.#started) return this.#start(chunk);
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    if (choices.length === 0) return this.#closeBlock() + this.#delta(chunk.usage);
    const choice: unknown = choices[0];
    return isJsonObject(choice) ? this.#choice(choice) : "";
  }

  /** After the last chunk. */
  end(): string {
    return this.#closeBlock() + event("message_stop", {});
  }

  #start({ id, usage }: JsonObject): string {
    this.#started = true;
    const head = { id, type: "message", role: "assistant", content: [], model: this.#modelName };
    const message = { ...head, stop_reason: null, stop_sequence: null, usage: messageUsage(usage) };
    return event("message_start", { message });
  }

  #delta(usage: unknown): string {
    const complete = this.#toolUsed && isJsonText(this.#arguments);
    const tools = { used: this.#toolUsed, complete };
    const delta = stopOf(this.#finishReason ?? "stop", this.#stopReason, tools);
    return event("message_delta", { delta, usage: messageUsage(usage) });
  }

  #choice(choice: JsonObject): string {
    if (choice.finish_reason !== null && choice.finish_reason !== undefined) {
      this.#finishReason = choice.finish_reason;
      this.#stopReason = choice.stop_reason;
    }
    const { reasoning, content, tool_calls: calls } = isJsonObject(choice.delta) ? choice.delta : {};
    let events = "";
    if (isText(reasoning)) events += this.#thinking(reasoning);
    if (isText(content)) events += this.#text(content);
    for (const call of Array.isArray(calls) ? calls : []) {
      if (isJsonObject(call)) events += this.#toolCall(call);
    }
    return events;
  }

  #thinking(thinking: string): string {
    const opened =
      this.#block?.type === "thinking"
        ? ""
        : this.#open({ type: "thinking", signature: newSignature() }, { type: "thinking", thinking: "" });
    return opened + this.#blockDelta({ type: "thinking_delta", thinking });
  }

  /** Text between the parts of a tool call waits until that has ended. */
  #text(text: string): string {
    if (this.#block?.type === "tool_use") {
      this.#block.text.push(text);
      return "";
    }
    const opened =
      this.#block?.type === "text" ? "" : this.#open({ type: "text" }, { type: "text", text: "" });
    return opened + this.#blockDelta({ type: "text_delta", text });
  }

  #toolCall({ id, index, function: called }: JsonObject): string {
    const { name, arguments: text } = isJsonObject(called) ? called : {};
    let events = "";
    const isNew = id !== null && id !== undefined;
    if (isNew) {
      this.#callIds.set(index, id);
      if (this.#openCall !== id && name !== null && name !== undefined) {
        events += this.#open({ type: "tool_use", id, text: [] }, { type: "tool_use", id, name, input: {} });
        this.#toolUsed = true;
        this.#arguments = "";
      }
    }
    const callId = isNew ? id : this.#callIds.get(index);
    if (!isText(text) || callId === undefined || this.#openCall !== callId) return events;
    this.#arguments += text;
    return events + this.#blockDelta({ type: "input_json_delta", partial_json: text });
  }

  get #openCall(): unknown {
    return this.#block?.type === "tool_use" ? this.#block.id : undefined;
  }

  #open(block: Block, content_block: JsonObject): string {
    const closed = this.#closeBlock();
    this.#block = block;
    return closed + event("content_block_start", { content_block, index: this.#index });
  }

  #closeBlock(): string {
    const block = this.#block;
    if (block === undefined) return "";
    let events = "";
    if (block.type === "thinking") {
      events += this.#blockDelta({ type: "signature_delta", signature: block.signature });
    }
    events += event("content_block_stop", { index: this.#index });
    this.#block = undefined;
    this.#index += 1;
    if (block.type !== "tool_use" || block.text.length === 0) return events;
    return events + this.#text(block.text.join("")) + this.#closeBlock();
  }

  #blockDelta(delta: JsonObject): string {
    return event("content_block_delta", { delta, index: this.#index });
  }
}

function event(type: string, members: JsonObject): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

function errorEvent({ message }: JsonObject): string {
  return event("error", { error: { type: "internal_error", message } });
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
