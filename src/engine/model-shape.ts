import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import type { ModelShape } from "./model-memory.ts";
import { measureWeights } from "./model-weights.ts";

const count = v.optional(v.pipe(v.number(), v.minValue(0)));

/** What config.json says of a model's size. */
export const shapeFields = {
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count,
  hidden_size: count,
  head_dim: v.optional(v.nullable(v.number())),
};
const layersSchema = v.object(shapeFields);
const shapeSchema = v.object({ text_config: v.optional(layersSchema), ...shapeFields });
export type ShapeConfig = v.InferOutput<typeof shapeSchema>;

/** The size of a model whose folder was checked. */
export function readModelShape(folder: string): ModelShape {
  const config = v.parse(shapeSchema, JSON.parse(readFileSync(join(folder, "config.json"), "utf8")));
  const { parameters } = measureWeights(folder, readdirSync(folder)).totals;
  return { parameters, bytesPerToken: bytesPerToken(config) };
}

/** Keys and values in 16 bits, over all layers. */
export function bytesPerToken(config: ShapeConfig): number {
  const shape = config.num_hidden_layers === undefined ? (config.text_config ?? config) : config;
  const { num_hidden_layers = 0, num_attention_heads = 0, hidden_size = 0 } = shape;
  const heads = shape.num_key_value_heads ?? num_attention_heads;
  const headSize = shape.head_dim ?? (num_attention_heads === 0 ? 0 : hidden_size / num_attention_heads);
  return 2 * 2 * num_hidden_layers * heads * headSize;
}
