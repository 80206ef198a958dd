import { UsageError } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";

/** The agent's defaults with what was given on top; a name or type that the agent does not know is refused. */
export function mergeSettings(agentName: string, defaults: JsonObject, given: JsonObject): JsonObject {
  const known = Object.keys(defaults);
  for (const [name, value] of Object.entries(given)) {
    if (!known.includes(name)) {
      throw new UsageError(
        `agent "${agentName}" has no setting "${name}"`,
        known.length === 0 ? "it has no settings" : `its settings are: ${known.join(", ")}`,
      );
    }
    const expected = typeof defaults[name];
    if (defaults[name] !== null && typeof value !== expected) {
      throw new UsageError(
        `setting "${name}" of agent "${agentName}" is ${JSON.stringify(value)}`,
        `give a ${expected}`,
      );
    }
  }
  return { ...defaults, ...given };
}
