import { Command, CommanderError } from "commander";
import { version } from "../package.json" with { type: "json" };
import { addImportOptions } from "./commands/import-options.ts";
import { refuseTokenFlag, addStoreOptions, storeAliases } from "./commands/store-options.ts";
import { addExportOptions, addShowOptions } from "./commands/inspection-options.ts";
import { addPruneOptions } from "./commands/prune-options.ts";
import { type Config, type ResolvedConfig, resolveConfig } from "./config.ts";
import { AglError, messageOf } from "./errors.ts";
import { addSettingFlags, flagsByName, namesFor, shorterNames, type TakenSettings } from "./setting-flags.ts";
import type { SettingName } from "./settings.ts";

interface CommandContext {
  sources: ResolvedConfig["sources"];
  /** `--json` was given. */
  json: boolean;
  /** Arguments, and the flags that are no settings. */
  args: string[];
  own: Record<string, unknown>;
  environment: Record<string, string | undefined>;
}

type CommandAction = (config: Config, context: CommandContext) => Promise<number>;

interface CommandEntry extends TakenSettings {
  /** Two words for a command of another one, which comes before it. */
  name: string;
  summary: string;
  /** Whether it can print JSON for programs. */
  json?: boolean;
  /** Adds arguments, and flags that are no settings. */
  addOptions?: (command: Command) => void;
  load: () => Promise<CommandAction>;
}

/** Of `agl store` and `agl proxy` alone. */
const otherParts: SettingName[] = [
  "store.host",
  "store.scan_debounce_seconds",
  "store.cors_origin",
  "store.allowed_host",
  "store.access_log",
  "proxy.model_list",
];
const runnersElsewhere: SettingName[] = ["runners.agent_name", "runners.connect_seconds"];

const commands: CommandEntry[] = [
  {
    name: "allinone",
    summary: "serve, roll out, score, train, serve the result: the whole loop with one command",
    without: [...otherParts, ...runnersElsewhere, "store.db", "tasks.dev"],
    load: async () => (await import("./commands/allinone.ts")).allinone,
  },
  {
    name: "dev",
    summary: "a dry run: a few tasks told call by call, and the rows they would become; trains nothing",
    without: [...otherParts, ...runnersElsewhere, "tasks.train_limit", "tasks.validation_limit"],
    load: async () => (await import("./commands/dev.ts")).dev,
  },
  {
    name: "proxy",
    summary: "the recording proxy alone, in front of any OpenAI-compatible server",
    settings: [
      "store.url",
      "store.connect_seconds",
      "token_file",
      "proxy.port",
      "proxy.model_list",
      "proxy.hold_seconds",
      "proxy.spool_dir",
      "proxy.spool_max_mb",
      "proxy.when_full",
      "engine.url",
      "engine.api_key",
      "model_name",
      "log_level",
    ],
    load: async () => (await import("./commands/proxy.ts")).proxy,
  },
  {
    name: "store",
    summary: "the durable store alone: rollouts, attempts, spans, resources",
    settings: [
      "store.host",
      "store.port",
      "store.db",
      "token_file",
      "store.scan_debounce_seconds",
      "store.cors_origin",
      "store.allowed_host",
      "store.access_log",
      "log_level",
    ],
    aliases: storeAliases,
    addOptions: addStoreOptions,
    load: async () => (await import("./commands/store.ts")).serveStoreCommand,
  },
  {
    name: "store prune",
    summary:
      "delete finished rollouts from a store's file with all that belongs to them; says what, unless told --apply",
    settings: ["store.db", "log_level"],
    json: true,
    aliases: { "store.db": "db" },
    addOptions: addPruneOptions,
    load: async () => (await import("./commands/store-prune.ts")).storePrune,
  },
  {
    name: "runners",
    summary: "workers that run an agent on the rollouts of a store",
    settings: [
      "agent",
      "store.url",
      "store.connect_seconds",
      "token_file",
      "runners.count",
      "runners.concurrency",
      "runners.tracer",
      "runners.prefix",
      "rollouts.attempt_timeout_seconds",
      "uv",
      "uvx",
      "log_level",
    ],
    addOptions: (command) =>
      command.argument("[agent]", "agent file (TypeScript); the math agent when absent"),
    load: async () => (await import("./commands/runners-here.ts")).runnersHere,
  },
  {
    name: "algo",
    summary: "the algorithm with its proxy, engine and trainer, on a store and runners that run elsewhere",
    without: [
      ...otherParts,
      "store.port",
      "store.db",
      "tasks.dev",
      "runners.count",
      "runners.concurrency",
      "runners.prefix",
    ],
    addOptions: (command) =>
      command.argument("[algorithm]", "file with an algorithm of your own; the built-in one when absent"),
    load: async () => (await import("./commands/algo.ts")).algo,
  },
  {
    name: "setup",
    summary: "make the Python environment now instead of on first use",
    settings: ["profile", "python", "uv", "cache", "log_level"],
    load: async () => (await import("./commands/setup.ts")).setup,
  },
  {
    name: "doctor",
    summary: "check GPU, Python, model, ports, disk and tools, and say what to do about what is missing",
    json: true,
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    name: "config",
    summary: "every setting, its value and where it came from",
    json: true,
    load: async () => (await import("./commands/config.ts")).showConfig,
  },
  {
    name: "show",
    summary: "one rollout or attempt: its calls, tools, rewards, rows, and why it failed",
    settings: ["runs", "selection.rule", "adapter", "token_file"],
    json: true,
    addOptions: addShowOptions,
    load: async () => (await import("./commands/show.ts")).show,
  },
  {
    name: "export",
    summary: "what a store holds, or the rows made of it, as JSON lines",
    settings: ["runs", "selection.rule", "adapter", "token_file"],
    addOptions: addExportOptions,
    load: async () => (await import("./commands/export.ts")).exportLines,
  },
  {
    name: "import",
    summary: "what `agl export all` wrote, into a store's file: all of it or nothing",
    settings: ["log_level"],
    addOptions: addImportOptions,
    load: async () => (await import("./commands/import.ts")).importFile,
  },
];

/** Parts started by our own processes, never by a user. */
const internalCommands: Record<string, () => Promise<(args: string[]) => Promise<number>>> = {
  "__load-agent": async () => (await import("./commands/load-agent.ts")).loadAgentFile,
  __runners: async () => (await import("./commands/runners.ts")).runners,
};

const usageExitCode = 2;

/** Runs one command line and returns its exit code; expected failures become one or two lines on stderr. */
export async function runCli(args: string[]): Promise<number> {
  try {
    const internal = internalCommands[args[0] ?? ""];
    if (internal !== undefined) return await (await internal())(args.slice(1));
    return await parseAndRun(args);
  } catch (error) {
    return reportFailure(error);
  }
}

async function parseAndRun(args: string[]): Promise<number> {
  let exitCode = 0;
  const program = new Command("agl")
    .description("Makes the language model behind an agent better on one box.")
    .version(version, "-V, --version")
    .configureHelp({ showGlobalOptions: false })
    .exitOverride()
    .showHelpAfterError("(`agl help` lists the commands)");
  for (const entry of commands) {
    const command = newCommand(program, entry.name).description(entry.summary).exitOverride();
    addSettingFlags(command, entry);
    if (namesFor(entry).includes("token_file")) refuseTokenFlag(command);
    if (entry.json === true) command.option("--json", "print JSON");
    command.showHelpAfterError(`(\`agl ${entry.name} --help\` lists its flags)`);
    entry.addOptions?.(command);
    command.action(async () => {
      const given = command.optsWithGlobals();
      const flags = flagsByName(given, entry);
      const flagNames = shorterNames(given, entry);
      const { config, sources } = resolveConfig({ flags, flagNames, environment: process.env });
      const run = await entry.load();
      const json = given["json"] === true;
      exitCode = await run(config, {
        sources,
        json,
        args: command.args,
        own: given,
        environment: process.env,
      });
    });
  }
  if (args.length === 0) {
    program.outputHelp();
    return 0;
  }
  await program.parseAsync(askedOf(program, args), { from: "user" });
  return exitCode;
}

/** `help store prune` asks what `store prune --help` does; of an unknown command nothing but its name, to be refused. */
function askedOf(program: Command, args: string[]): string[] {
  const words = args[0] === "help" && args.length > 1 ? [...args.slice(1), "--help"] : args;
  const first = words[0]!;
  const known = ["help", ...program.commands.map((command) => command.name())];
  return first.startsWith("-") || known.includes(first) ? words : [first];
}

function newCommand(program: Command, name: string): Command {
  const [word, subcommand] = name.split(" ");
  if (subcommand === undefined) return program.command(name);
  return program.commands.find((command) => command.name() === word)!.command(subcommand);
}

function reportFailure(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : usageExitCode;
  if (error instanceof AglError) {
    process.stderr.write(`error: ${error.message}\n`);
    if (error.remedy !== undefined) process.stderr.write(`  ${error.remedy}\n`);
    return error.exitCode;
  }
  process.stderr.write(`internal error: ${messageOf(error)}\n`);
  if (error instanceof Error && error.stack !== undefined) process.stderr.write(`${error.stack}\n`);
  return 70;
}
