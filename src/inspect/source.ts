import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { connectStore } from "../client/http-store.ts";
import { refuseOtherStore } from "../client/other-store.ts";
import { storeAddress } from "../client/store-address.ts";
import { AglError, UsageError } from "../errors.ts";
import { withoutSecrets } from "../secrets.ts";
import { openRecordReader, type RecordReading } from "../store/record-reader.ts";

export interface SourceChoice {
  /** Address of a served store. */
  store?: string | undefined;
  /** A store's file. */
  db?: string | undefined;
  /** A run's folder, or the name of one in `runs`. */
  run?: string | undefined;
  /** Of a served store that wants one. */
  token?: string | undefined;
  /** Where runs lie; the newest one is read when nothing else is named. */
  runs: string;
}

export interface Source {
  reading: RecordReading;
  /** The address or the file. */
  name: string;
  close(): Promise<void>;
}

/** Opens the store that is to be read, without disturbing whoever works with it. */
export async function openSource(choice: SourceChoice): Promise<Source> {
  const named = (["store", "db", "run"] as const).filter((name) => choice[name] !== undefined);
  if (named.length > 1) {
    throw new UsageError(
      `${named.map((name) => `--${name}`).join(" and ")} are given`,
      "name one of them: a served store, a store file, or a run's folder",
    );
  }
  if (choice.store !== undefined) return await openServed(choice.store, choice.token);
  const file = choice.db ?? join(runFolder(choice), "store.db");
  const reader = openRecordReader(file);
  return { reading: reader, name: file, close: () => reader.close() };
}

async function openServed(given: string, token: string | undefined): Promise<Source> {
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
    throw new UsageError(
      `--store is ${JSON.stringify(withoutSecrets(given))}`,
      "It is a store's address, for example http://127.0.0.1:4747.",
    );
  }
  const { url, authorization } = storeAddress(given, token);
  const store = connectStore(url, { exact: true, authorization, onOtherStore: refuseOtherStore });
  const { ok, refused, instead } = await store.health();
  if (ok) return { reading: store, name: url, close: () => store.close() };
  await store.close();
  if (refused !== undefined) throw refused;
  throw new AglError("store", `no store answers at ${url}${instead === undefined ? "" : `: ${instead}`}`, {
    remedy: "check that it runs and that its address is right, or read its file with --db",
  });
}

function runFolder({ run, runs }: SourceChoice): string {
  if (run === undefined) return newestRun(runs);
  const found = [resolve(run), resolve(runs, run)].find((folder) => existsSync(join(folder, "store.db")));
  if (found !== undefined) return found;
  throw new UsageError(`--run: ${run} is no run's folder with a store.db in it`, describeRuns(runs));
}

function newestRun(runs: string): string {
  const newest = listRuns(runs).at(-1);
  if (newest !== undefined) return join(resolve(runs), newest);
  throw new UsageError(
    `there is no run in ${resolve(runs)} with a store.db of its own`,
    "name a served store with --store, a store file with --db, or a run's folder with --run",
  );
}

function describeRuns(runs: string): string {
  const names = listRuns(runs).slice(-5).reverse();
  return names.length === 0 ? `${resolve(runs)} holds no run` : `the newest runs are ${names.join(", ")}`;
}

/** Runs that have a store, oldest first; runs of one day are numbered. */
function listRuns(runs: string): string[] {
  if (!existsSync(runs)) return [];
  return readdirSync(runs)
    .filter((name) => /^\d{4}-\d{2}-\d{2}-\d+$/.test(name) && existsSync(join(runs, name, "store.db")))
    .sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
}
