import type { ModelRequest } from "../../chat/model-request.ts";
import type { DirectFetch } from "../../client/loopback-fetch.ts";
import type { Logger } from "../../log.ts";
import { errorAnswer } from "../error-answer.ts";
import { HeldCalls, type HeldStatistics, type HoldEnd } from "./held-calls.ts";
import type { ProxyOptions } from "../proxy.ts";
import { Refused, unavailable } from "../refusal.ts";
import type { AgentRequest } from "./upstream-call.ts";
import { type ServerReport, type Target, UpstreamTable, type Wish } from "./upstream-table.ts";

/** One try: null when nobody was reached and the call may be sent again. */
export type Send = (target: Target, isLastTry: boolean) => Promise<Response | null>;

export interface DeliveryStatistics extends HeldStatistics {
  /** Calls that one server could not be reached for, and another of the same model got. */
  movedToAnother: number;
  servers: ServerReport[];
}

/** Gets calls to a server of their model: to another one, or later, as long as nobody can have begun them. */
export class Delivery {
  readonly upstreams: UpstreamTable;
  readonly #held: HeldCalls;
  #movedToAnother = 0;
  #closed = false;

  constructor(options: ProxyOptions, { fetch, log }: { fetch: DirectFetch; log: Logger }) {
    this.#held = new HeldCalls({
      holdMs: options.holdMs ?? 0,
      maxCalls: options.maxHeldCalls ?? 1_000,
      maxBytes: options.maxHeldBytes ?? 256 * 1024 * 1024,
    });
    this.upstreams = new UpstreamTable(options.upstreams ?? [], {
      fetch,
      log,
      random: options.random ?? Math.random,
      holds: this.#held.holds,
      firstPauseMs: options.firstPauseMs ?? 1_000,
      onAvailable: () => this.#held.wake(),
    });
  }

  statistics(): DeliveryStatistics {
    const servers = this.upstreams.report();
    return { ...this.#held.statistics(), movedToAnother: this.#movedToAnother, servers };
  }

  /** Calls that wait for a model server are refused now. */
  refuseHeld(): void {
    this.#held.stop();
  }

  close(): void {
    this.#closed = true;
    this.upstreams.close();
    this.#held.stop();
  }

  /** Tries until there is an answer; in between the call is held, and the last try is made without waiting. */
  async patiently(
    agent: Pick<AgentRequest, "signal">,
    attempt: (mayWait: boolean) => Promise<Response | ModelRequest>,
  ): Promise<Response> {
    const patience = this.#held.patience(agent);
    for (;;) {
      const { changes } = this.#held;
      const outcome = await attempt(!patience.isOver);
      if (outcome instanceof Response) return outcome;
      const end = await patience.wait(2 * outcome.text.length, changes);
      if (end === "left") return new Response(null, { status: 499 });
      if (end === "full" || end === "stopping") throw this.#notHeld(end);
    }
  }

  /** Sends the call to one server; when that cannot be reached, to one other of the same model. */
  async reach(wish: Wish, send: Send): Promise<Response | null> {
    const first = this.#choose(wish);
    if (first === undefined) return null;
    const answer = await send(first, !wish.mayWait && !this.upstreams.hasAnother(first));
    if (answer !== null) return answer;
    const second = this.#choose(wish);
    if (second === undefined) return null;
    if (second.health !== first.health) this.#movedToAnother += 1;
    return await send(second, !wish.mayWait);
  }

  /** False when the call has to wait for a server. */
  isServed(wish: Wish): boolean {
    if (this.upstreams.serves(wish)) return true;
    const names = this.upstreams.names();
    if (names.length > 0 && !names.includes(wish.modelName)) throw unknownModel(wish.modelName, names);
    if (wish.mayWait) return false;
    throw unavailable("no_upstream", "no model is being served now; try again");
  }

  /** Undefined only when the call may wait. */
  #choose(wish: Wish): Target | undefined {
    const target = this.upstreams.choose(wish);
    // Which fails with the reason, unless the call may wait.
    if (target === undefined) this.isServed(wish);
    return target;
  }

  #notHeld(end: HoldEnd): Refused {
    if (this.#closed) return unavailable("closed", "the proxy is closing");
    return end === "full"
      ? unavailable("too_many_held", "too many calls wait for a model server; try again")
      : unavailable("no_upstream", "no model is being served now, and the proxy is stopping; try again");
  }
}

function unknownModel(modelName: string, names: string[]): Refused {
  const message = `model is ${JSON.stringify(modelName)}: this proxy serves ${names.join(", ")}`;
  return new Refused("unknown_model", errorAnswer(400, "model_not_found", message, { param: "model" }));
}
