import { type Command, InvalidArgumentError, Option } from "commander";
import { UsageError } from "../errors.ts";
import type { SettingName } from "../settings.ts";

/** The flags of upstream's `agl store`, where ours have longer names. */
export const storeAliases: Partial<Record<SettingName, string>> = {
  "store.host": "host",
  "store.port": "port",
  "store.db": "db",
  "store.scan_debounce_seconds": "scan-debounce",
  "store.cors_origin": "cors-origin",
  "store.allowed_host": "allowed-host",
  "store.access_log": "access-log",
};

/** Upstream's other flags: taken where they ask for what there is, else answered with what to use instead. */
export function addStoreOptions(command: Command): void {
  const answers: [flag: string, taken: string[], instead: string][] = [
    ["--n-workers <n>", ["1"], "One process serves the store and commits for all; leave it out."],
    [
      "--backend <name>",
      [],
      "The store keeps its data in the file that --db names; --db :memory: keeps nothing.",
    ],
    ["--mongo-uri <uri>", [], "The store needs no database server; --db names its file."],
    [
      "--tracker <names...>",
      ["prometheus"],
      "Metrics are always at /v1/prometheus; --access-log shows requests.",
    ],
  ];
  for (const [flag, taken, instead] of answers) {
    const parse = (given: string) => {
      if (!taken.includes(given)) throw new InvalidArgumentError(instead);
      return given;
    };
    command.addOption(new Option(flag).argParser(parse).hideHelp());
  }
}

/** Other users of the machine can read command lines, and shells remember them. */
export function refuseTokenFlag(command: Command): void {
  const refuse = () => {
    throw new UsageError(
      "--token: a token on the command line can be read by every user of the machine",
      "set AGL_TOKEN, or name a file that holds it with --token-file",
    );
  };
  command.addOption(new Option("--token <token>").argParser(refuse).hideHelp());
}
