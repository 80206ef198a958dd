import type { EndedRollout, ScanOutcome } from "../../store/observer.ts";
import { processMetrics } from "./process-metrics.ts";
import { type Naming, Observations } from "./series.ts";
import { collectionsOf } from "./store-methods.ts";

/** Section 8.4, in seconds. */
const bounds = [
  1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7e-3, 0.01, 0.015, 0.02, 0.03,
  0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 3, 5, 7, 10, 12, 15, 20, 25, 30, 40, 50, 60, 90, 120, 180, 240,
  300,
];

export const metricsContentType = "text/plain; version=0.0.4; charset=utf-8";

const http: Naming = {
  counter: "agl_http_total",
  histogram: "agl_http_latency",
  help: "HTTP requests.",
  labels: ["path", "method", "status"],
};
const rollouts: Naming = {
  counter: "agl_rollouts_total",
  histogram: "agl_rollouts_duration",
  help: "Rollouts that ended.",
  labels: ["status", "mode"],
};
const operations: Naming = {
  counter: "agl_store_total",
  histogram: "agl_store_latency",
  help: "Operations of the store.",
  labels: ["method", "store_pubmeth", "status"],
  valuesOf: ([method = "", status = ""]) => [method, method, status],
};
/** Upstream's store is made of collections; here an operation counts for the one that it is about. */
const collections: Naming = {
  counter: "agl_collections_total",
  histogram: "agl_collections_latency",
  help: "Operations of the store, by what they are about.",
  labels: ["store_pubmeth", "operation", "collection", "store_privmeth", "status"],
  valuesOf([method = "", status = ""]) {
    const { operation, collection } = collectionsOf(method);
    return [method, operation, collection, method, status];
  },
};

/** What `/v1/prometheus` tells: requests, rollouts and operations since the start, with upstream's names and labels. */
export class StoreMetrics {
  readonly #http = new Observations(bounds);
  readonly #rollouts = new Observations(bounds);
  readonly #operations = new Observations(bounds);

  /** `path` is a template; `status` a code, 499 when the client went away, or the class of an error of ours. */
  request(path: string, method: string, status: string, seconds: number): void {
    this.#http.observe([path, method, status], seconds);
  }

  /** `method` is upstream's name; `status` OK or the class of the error. */
  operation(method: string, status: string, seconds: number): void {
    this.#operations.observe([method, status], seconds);
  }

  rolloutEnded({ status, mode, seconds }: EndedRollout): void {
    this.#rollouts.observe([status, mode ?? "unknown"], seconds);
  }

  scanned({ error, seconds }: ScanOutcome): void {
    this.operation("_scan_for_unhealthy_rollouts", statusOf(error), seconds);
  }

  render(): string {
    const lines = [
      ...this.#http.render(http),
      ...this.#rollouts.render(rollouts),
      ...this.#operations.render(operations),
      ...this.#operations.render(collections),
      ...processMetrics(),
    ];
    return `${lines.join("\n")}\n`;
  }
}

export function statusOf(error: unknown): string {
  if (error === undefined) return "OK";
  return error instanceof Error ? error.constructor.name : "Error";
}
