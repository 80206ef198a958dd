import type { Database } from "bun:sqlite";
import type { ResourcesQuery, StoreApi, WorkerQuery } from "../protocol/store-api.ts";
import type { Page, ResourcesUpdate, Worker } from "../protocol/types.ts";
import { resourcesOf, workerOf } from "./tables/rows.ts";
import { openFileToRead, StoreReader, type StoreReading } from "./store-reader.ts";
import { openTables, type Tables } from "./tables/tables.ts";

/** Everything that a store holds. */
export type RecordReading = StoreReading & Pick<StoreApi, "queryResources" | "queryWorkers">;

/** As `openStoreReader`, for those who read resources and workers, too. */
export function openRecordReader(path: string): RecordReader {
  return new RecordReader(openFileToRead(path));
}

export class RecordReader extends StoreReader implements RecordReading {
  readonly #tables: Pick<Tables, "resources" | "workers">;

  constructor(db: Database) {
    super(db);
    this.#tables = openTables(db, []);
  }

  async queryResources(query: ResourcesQuery): Promise<Page<ResourcesUpdate>> {
    const { rows, ...page } = this.#tables.resources.list(query);
    return { ...page, items: rows.map(resourcesOf) };
  }

  async queryWorkers(query: WorkerQuery): Promise<Page<Worker>> {
    const { rows, ...page } = this.#tables.workers.list(query);
    return { ...page, items: rows.map(workerOf) };
  }
}
