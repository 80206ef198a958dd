import type { ResourcesQuery, StoreApi, WorkerQuery } from "../protocol/store-api.ts";
import type { Page, ResourcesUpdate, Worker } from "../protocol/types.ts";
import { pageOf } from "./tables/query.ts";
import { resourcesOf, workerOf } from "./tables/rows.ts";
import { openFileToRead, StoreReader, type StoreReading } from "./store-reader.ts";

/** Everything that a store holds. */
export type RecordReading = StoreReading & Pick<StoreApi, "queryResources" | "queryWorkers">;

/** As `openStoreReader`, for those who read resources and workers, too. */
export function openRecordReader(path: string): RecordReader {
  return new RecordReader(openFileToRead(path));
}

export class RecordReader extends StoreReader implements RecordReading {
  async queryResources(query: ResourcesQuery): Promise<Page<ResourcesUpdate>> {
    return pageOf(this.tables.resources.list(query), resourcesOf);
  }

  async queryWorkers(query: WorkerQuery): Promise<Page<Worker>> {
    return pageOf(this.tables.workers.list(query), workerOf);
  }
}
