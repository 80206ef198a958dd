import { readStructured } from "../protocol/python-literal.ts";
import type { Attributes } from "../protocol/types.ts";
import { isChoice } from "./flat-conversation.ts";
import { arrayOf } from "./opaque.ts";
import { numberedItems, unflatten } from "./unflatten.ts";

/** Answers to one call, as far as its attributes tell. */
export function choiceCount(attributes: Attributes): number {
  return Math.max(
    numberedItems(unflatten(attributes, "gen_ai.completion")).filter(isChoice).length,
    arrayOf(readStructured(attributes["gen_ai.output.messages"])).length,
    arrayOf(attributes["gen_ai.response.finish_reasons"]).length,
  );
}
