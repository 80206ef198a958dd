import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { messageOf, UsageError } from "../errors.ts";
import { checkWeights } from "./checkpoint.ts";

const tokenizers = ["tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json"];
const templates = ["chat_template.jinja", "chat_template.json", "additional_chat_templates", "tekken.json"];
const tokenizerConfig = v.object({ chat_template: v.union([v.string(), v.array(v.unknown())]) });

/**
 * Refuses a folder that cannot be served or trained, with its first fault: configuration, tokenizer, chat template and
 * whole weights. Found here it costs a moment; found by the model server or after the rollouts, minutes or hours.
 */
export function checkBaseModel(folder: string): void {
  readJson(folder, "config.json");
  if (!tokenizers.some((name) => existsSync(join(folder, name)))) {
    throw refusal(folder, `holds no tokenizer (${tokenizers.join(", ")})`);
  }
  if (!hasChatTemplate(folder)) {
    throw refusal(
      folder,
      "holds no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)",
    );
  }
  try {
    checkWeights(folder);
  } catch (error) {
    throw new UsageError(messageOf(error), "copy or download the model again; weights must be *.safetensors");
  }
}

function hasChatTemplate(folder: string): boolean {
  if (templates.some((name) => existsSync(join(folder, name)))) return true;
  const name = "tokenizer_config.json";
  return existsSync(join(folder, name)) && v.is(tokenizerConfig, readJson(folder, name));
}

function readJson(folder: string, name: string): unknown {
  try {
    return JSON.parse(readFileSync(join(folder, name), "utf8"));
  } catch (error) {
    throw refusal(folder, `${name} cannot be read: ${messageOf(error)}`);
  }
}

function refusal(folder: string, what: string): UsageError {
  return new UsageError(`the model ${folder}: ${what}`, "name a complete folder in Hugging Face's layout");
}
