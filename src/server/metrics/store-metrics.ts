import type { EndedRollout, ScanOutcome } from "../../store/observer.ts";
import { processMetrics } from "./process-metrics.ts";
import { Counter, Histogram } from "./series.ts";
import { collectionsOf } from "./store-methods.ts";

/** Section 8.4, in seconds. */
const bounds = [
  1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7e-3, 0.01, 0.015, 0.02, 0.03,
  0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 3, 5, 7, 10, 12, 15, 20, 25, 30, 40, 50, 60, 90, 120, 180, 240,
  300,
];

export const metricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/** What `/v1/prometheus` tells: requests, rollouts and operations since the start, with upstream's names and labels. */
export class StoreMetrics {
  readonly #http = pair("agl_http", "HTTP requests", ["path", "method", "status"]);
  readonly #rollouts = pair("agl_rollouts", "Rollouts that ended", ["status", "mode"], "_duration");
  readonly #store = pair("agl_store", "Operations of the store", ["method", "store_pubmeth", "status"]);
  readonly #collections = pair("agl_collections", "Operations by the kind of what they read or write", [
    "store_pubmeth",
    "operation",
    "collection",
    "store_privmeth",
    "status",
  ]);

  /** `path` is a template; `status` a code, 499 when the client went away, or the class of an error of ours. */
  request(path: string, method: string, status: string, seconds: number): void {
    this.#http.record([path, method, status], seconds);
  }

  /** `method` is upstream's name; `status` OK or the class of the error. */
  operation(method: string, status: string, seconds: number): void {
    this.#store.record([method, method, status], seconds);
    const { operation, collection } = collectionsOf(method);
    this.#collections.record([method, operation, collection, method, status], seconds);
  }

  rolloutEnded({ status, mode, seconds }: EndedRollout): void {
    this.#rollouts.record([status, mode ?? "unknown"], seconds);
  }

  scanned({ error, seconds }: ScanOutcome): void {
    this.operation("_scan_for_unhealthy_rollouts", statusOf(error), seconds);
  }

  render(): string {
    const ours = [this.#http, this.#rollouts, this.#store, this.#collections].flatMap((each) =>
      each.render(),
    );
    return `${[...ours, ...processMetrics()].join("\n")}\n`;
  }
}

export function statusOf(error: unknown): string {
  if (error === undefined) return "OK";
  return error instanceof Error ? error.constructor.name : "Error";
}

function pair(name: string, what: string, labels: readonly string[], measure = "_latency") {
  const total = new Counter(`${name}_total`, `${what}.`, labels);
  const seconds = new Histogram(`${name}${measure}`, `${what}, in seconds.`, labels, bounds);
  return {
    record(values: readonly string[], value: number) {
      total.increase(values);
      seconds.observe(values, value);
    },
    render: () => [...total.render(), ...seconds.render()],
  };
}
