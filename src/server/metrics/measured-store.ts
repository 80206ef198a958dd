import type { StoreApi } from "../../protocol/store-api.ts";
import { statusOf, type StoreMetrics } from "./store-metrics.ts";
import { storeMethods } from "./store-methods.ts";

type AnyMethod = (...args: unknown[]) => Promise<unknown>;

/** The same store; what each operation took, and how it ended, is counted. */
export function measuredStore(store: StoreApi, metrics: StoreMetrics): StoreApi {
  const names = Object.keys(storeMethods) as (keyof StoreApi)[];
  const methods = names.map((name) => {
    const call: AnyMethod = (...args) => (store[name] as AnyMethod)(...args);
    return [name, measured(storeMethods[name].name, call, metrics)];
  });
  return Object.fromEntries(methods) as StoreApi;
}

function measured(name: string, call: AnyMethod, metrics: StoreMetrics): AnyMethod {
  return async (...args) => {
    const started = performance.now();
    try {
      const answer = await call(...args);
      metrics.operation(name, "OK", (performance.now() - started) / 1000);
      return answer;
    } catch (error) {
      metrics.operation(name, statusOf(error), (performance.now() - started) / 1000);
      throw error;
    }
  };
}
