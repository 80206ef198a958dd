import * as v from "valibot";
import { templateEngines } from "./enums.ts";
import { opaqueObject, wireRecord } from "./wire-values.ts";

const llm = {
  endpoint: v.string(),
  model: v.string(),
  api_key: v.nullish(v.string(), null),
  sampling_parameters: v.optional(opaqueObject, () => ({})),
};

const resourceSchema = v.pipe(
  opaqueObject,
  v.variant("resource_type", [
    v.object({ resource_type: v.literal("llm"), ...llm }),
    v.object({ resource_type: v.literal("proxy_llm"), ...llm }),
    v.object({
      resource_type: v.literal("prompt_template"),
      template: v.string(),
      engine: v.picklist(templateEngines),
    }),
  ]),
);

/** The body of both resource writes: name → resource, without a wrapper. */
export const resourcesSchema = wireRecord(resourceSchema);
