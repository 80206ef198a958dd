import type { Database } from "bun:sqlite";
import { AttemptTable } from "./attempt-table.ts";
import { ResourceTable } from "./resource-table.ts";
import { RolloutTable } from "./rollout-table.ts";
import type { StatusChange } from "./rollout-table.ts";
import { SpanTable } from "./span-table.ts";
import { TotalsTable } from "./totals-table.ts";
import { WorkerTable } from "./worker-table.ts";

export interface Tables {
  rollouts: RolloutTable;
  attempts: AttemptTable;
  spans: SpanTable;
  resources: ResourceTable;
  workers: WorkerTable;
  totals: TotalsTable;
}

export function openTables(db: Database, journal: StatusChange[]): Tables {
  return {
    rollouts: new RolloutTable(db, journal),
    attempts: new AttemptTable(db),
    spans: new SpanTable(db),
    resources: new ResourceTable(db),
    workers: new WorkerTable(db),
    totals: new TotalsTable(db),
  };
}
