import { existsSync } from "node:fs";
import { resolve } from "node:path";
import * as v from "valibot";
import { AglError, messageOf, UsageError } from "../errors.ts";
import type { Agent } from "./agent.ts";
import mathAgent from "./math-agent.ts";

const shape = "export default { name, async run(task, context) { … return reward } } satisfies Agent";

const agentSchema = v.looseObject({
  name: v.optional(v.string("must be a text")),
  run: v.function("must be a function"),
  settings: v.optional(v.record(v.string(), v.unknown(), "must be an object of names and default values")),
  tools: v.optional(
    v.record(
      v.string(),
      v.object({
        command: v.pipe(v.string("must be a text"), v.nonEmpty("must not be empty")),
        args: v.optional(v.array(v.string("must be a text"), "must be a list of texts")),
        env: v.optional(v.record(v.string(), v.string("must be a text"), "must be an object of texts")),
      }),
      "must be an object of tool servers",
    ),
  ),
});

/** The built-in math agent, or the default export of a TypeScript or JavaScript file. */
export async function loadAgent(file: string | null): Promise<Agent> {
  if (file === null) return mathAgent;
  const path = resolve(file);
  if (!existsSync(path)) throw new UsageError(`agent file ${file} does not exist`);
  // Loaded only for agents that may need it: the packages cost tens of milliseconds and megabytes.
  const { bundledSpecifiers, offerBundledModules } = await import("./bundled-modules.ts");
  offerBundledModules(path);
  return checkAgent(file, await importFile(file, path, bundledSpecifiers));
}

async function importFile(file: string, path: string, offered: string[]): Promise<{ default?: unknown }> {
  try {
    return await import(path);
  } catch (error) {
    throw new AglError(
      "agent",
      `agent file ${file} cannot be loaded: ${describeImportError(error, offered)}`,
      {
        exitCode: 2,
        cause: error,
      },
    );
  }
}

function checkAgent(file: string, module: { default?: unknown }): Agent {
  if (module.default === undefined) throw new UsageError(`agent file ${file} has no default export`, shape);
  if (typeof module.default !== "object" || module.default === null) {
    throw new UsageError(`the default export of agent file ${file} is a ${typeof module.default}`, shape);
  }
  if (!("run" in module.default)) throw new UsageError(`the agent in ${file} has no run function`, shape);
  const checked = v.safeParse(agentSchema, module.default);
  if (!checked.success) {
    const issue = checked.issues[0];
    throw new UsageError(
      `the agent in ${file}: ${v.getDotPath(issue) ?? "its shape"} ${issue.message}`,
      shape,
    );
  }
  // The object itself is kept, not a copy: `run` may use `this`.
  const agent = module.default as Agent;
  return agent.name === undefined ? { ...agent, name: file, run: agent.run.bind(agent) } : agent;
}

function describeImportError(error: unknown, offered: string[]): string {
  const errors = error instanceof AggregateError ? error.errors : [error];
  return errors
    .slice(0, 3)
    .map((one) => describeOne(one, offered))
    .join("; ");
}

function describeOne(error: unknown, offered: string[]): string {
  const message = messageOf(error);
  const position = (error as { position?: { file: string; line: number; column: number } | null }).position;
  const place = position ? `${position.file}:${position.line}:${position.column}: ` : "";
  const isMissingPackage = /^Cannot find (?:package|module) '[^'./]/.test(message);
  const hint = isMissingPackage
    ? ` (install it beside the agent; offered without: ${offered.join(", ")})`
    : "";
  return place + message + hint;
}
