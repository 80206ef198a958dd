import { directFetch } from "../../src/client/loopback-fetch.ts";
import type { Bench } from "./bench.ts";
import type { AttemptName } from "./closed-loop.ts";
import {
  modelName,
  portkeyHeaders,
  startBareHop,
  startLitellm,
  startModelServer,
  startPortkey,
  startProxy,
  urlOf,
} from "./gateways.ts";
import type { CallTarget, ModelCallsJob, ModelCallsResult } from "./model-calls.ts";
import type { Server } from "./servers.ts";

/**
 * The ways of one call: to the model server directly, through our proxy recorded and (naming no attempt) unrecorded,
 * through a proxy that does nothing, and through the gateways of others.
 */
export type Side = "direct" | "recorded" | "unrecorded" | "bare" | "portkey" | "litellm";

export type CallsShape = Pick<ModelCallsJob, "connections" | "seconds" | "streamed" | "paced">;

/** What one side did in one turn. */
export interface Turn extends ModelCallsResult {
  /** Calls per second until the last one was stored. */
  rate: number;
  /** Processor milliseconds per call, by process. */
  cpu: { load: number; model: number; proxy: number; store: number };
}

/** What is measured beside our proxy. */
export interface GatewayChoice {
  bare?: boolean;
  portkey?: boolean;
  litellm?: boolean;
}

export class ProxySides {
  readonly sides: Side[] = ["direct", "recorded", "unrecorded"];
  readonly model: Server;
  readonly store: Server;
  readonly proxy: Server;
  /** Calls that were answered through our proxy, by attempt. */
  readonly answered: { attempt: AttemptName; calls: number }[] = [];
  readonly #bench: Bench;
  readonly #gateways = new Map<Side, Server>();

  private constructor(bench: Bench, servers: { model: Server; store: Server; proxy: Server }) {
    this.#bench = bench;
    this.model = servers.model;
    this.store = servers.store;
    this.proxy = servers.proxy;
  }

  static async start(bench: Bench, choice: GatewayChoice): Promise<ProxySides> {
    const { children, folder, options } = bench;
    const [model, store] = await Promise.all([startModelServer(children), bench.store()]);
    const proxy = await startProxy(children, { agl: options.agl, model, store });
    const sides = new ProxySides(bench, { model, store, proxy });
    if (choice.bare) sides.#add("bare", await startBareHop(children, model));
    if (choice.portkey) sides.#add("portkey", await startPortkey(children));
    if (choice.litellm) sides.#add("litellm", await startLitellm(children, model, folder));
    return sides;
  }

  async stop(): Promise<void> {
    const servers = [...this.#gateways.values(), this.proxy, this.store, this.model];
    for (const server of servers) await server.stop();
  }

  async turn(side: Side, shape: CallsShape): Promise<Turn> {
    const load = this.#bench.load();
    const attempts = side === "recorded" ? await this.newAttempts(shape.connections) : [];
    const target = this.target(side, attempts);
    const proxy = this.#gateways.get(side) ?? this.proxy;
    const servers = { load: load.child, model: this.model, proxy, store: this.store };
    const before = cpuOf(servers);
    const result = await load.run("modelCalls", { ...shape, target });
    const flushStart = performance.now();
    await Promise.all(attempts.map((attempt) => this.flush(attempt)));
    const seconds = result.seconds + (performance.now() - flushStart) / 1000;
    for (const attempt of attempts) {
      this.answered.push({ attempt, calls: result.completed[this.attemptUrl(attempt)] ?? 0 });
    }
    const after = cpuOf(servers);
    const cpu = { load: 0, model: 0, proxy: 0, store: 0 };
    for (const name of Object.keys(cpu) as (keyof typeof cpu)[]) {
      cpu[name] = (after[name] - before[name]) / result.calls;
    }
    return { ...result, rate: result.calls / seconds, cpu };
  }

  target(side: Side, attempts: AttemptName[]): CallTarget {
    switch (side) {
      case "direct":
        return { baseUrls: [urlOf(this.model)], headers: {}, model: modelName };
      case "recorded":
        return {
          baseUrls: attempts.map((attempt) => this.attemptUrl(attempt)),
          headers: {},
          model: modelName,
        };
      case "unrecorded":
        return { baseUrls: [urlOf(this.proxy)], headers: {}, model: modelName };
    }
    const headers = side === "portkey" ? portkeyHeaders(this.model) : {};
    return { baseUrls: [urlOf(this.#gateways.get(side) as Server)], headers, model: modelName };
  }

  newAttempts(count: number): Promise<AttemptName[]> {
    return this.#bench.load().run("startAttempts", { port: this.store.port, count });
  }

  attemptUrl({ rolloutId, attemptId }: AttemptName): string {
    return `http://127.0.0.1:${this.proxy.port}/rollout/${rolloutId}/attempt/${attemptId}/v1`;
  }

  /** Returns when all calls of the attempt are stored. */
  async flush(attempt: AttemptName): Promise<void> {
    const url = this.attemptUrl(attempt).replace(/v1$/, "flush");
    const { status } = await directFetch(url, { method: "POST" });
    if (status !== 204) throw new Error(`${url}: ${status}`);
  }

  #add(side: Side, server: Server): void {
    this.sides.push(side);
    this.#gateways.set(side, server);
  }
}

function cpuOf<Name extends string>(processes: Record<Name, { cpuMs(): number }>): Record<Name, number> {
  const entries = Object.entries(processes) as [Name, { cpuMs(): number }][];
  return Object.fromEntries(entries.map(([name, process]) => [name, process.cpuMs()])) as Record<
    Name,
    number
  >;
}
