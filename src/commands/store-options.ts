import { type Command, Option } from "commander";
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

interface UpstreamFlag {
  flag: string;
  /** Values that ask for what there is anyway. */
  taken: string[];
  instead: string;
}

const upstreamFlags: UpstreamFlag[] = [
  {
    flag: "--n-workers <n>",
    taken: ["1"],
    instead: "one process serves the store and commits for all who write; leave the flag out",
  },
  {
    flag: "--backend <name>",
    taken: [],
    instead: "the store keeps its data in the file that --db names; --db :memory: keeps nothing",
  },
  {
    flag: "--mongo-uri <uri>",
    taken: [],
    instead: "the store needs no database server; --db names the file it keeps its data in",
  },
  {
    flag: "--tracker <names...>",
    taken: ["prometheus"],
    instead: "metrics are always at /v1/prometheus, and --access-log shows requests; leave the flag out",
  },
];

/** Upstream's other flags: taken where they ask for what there is, else answered with what to use instead. */
export function addStoreOptions(command: Command): void {
  for (const { flag, taken, instead } of upstreamFlags) {
    const [name] = flag.split(" ");
    // The value is not shown: an address may hold a password.
    const parse = (given: string) => {
      if (!taken.includes(given))
        throw new UsageError(`${name} is Agent-lightning's and does nothing here`, instead);
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
