import { rendezvous } from "./rendezvous.ts";
import { type HealthState, type HealthSurroundings, ServerHealth, serverName } from "./server-health.ts";
import { checkUpstream, type Upstream } from "./upstreams.ts";

/** Where one call goes. */
export interface Target {
  upstream: Upstream;
  health: ServerHealth;
}

export interface Wish {
  modelName: string;
  /** Its calls stay with one server. */
  rolloutId?: string | undefined;
  /** Rather wait than go to a server that cannot be reached. */
  mayWait: boolean;
}

/** What one server did since it came into the list. */
export interface ServerReport {
  model_name: string;
  server: string;
  checkpoint: string;
  state: HealthState;
  failures: number;
  times_out: number;
}

interface Member extends Target {
  /** The same in every list that has this server. */
  name: string;
  weight: number;
}

export interface UpstreamTableOptions extends HealthSurroundings {
  /** At least 0, below 1: spreads the calls of no rollout. */
  random: () => number;
}

/** The servers that calls may go to, by the name of their model. */
export class UpstreamTable {
  readonly #options: UpstreamTableOptions;
  #members: readonly Member[] = [];
  /** Those that get calls, by the name of their model. */
  #groups = new Map<string, Member[]>();

  constructor(initial: readonly Upstream[], options: UpstreamTableOptions) {
    this.#options = options;
    this.set(initial);
  }

  /** Replaces the list at once. Whoever chose from the old list keeps what it got; servers in both stay as they are. */
  set(list: readonly Upstream[]): void {
    const before = new Map(this.#members.map((member) => [member.name, member]));
    const repeats = new Map<string, number>();
    const members = list.map(checkUpstream).map((upstream) => {
      const address = addressOf(upstream);
      const repeat = repeats.get(address) ?? 0;
      repeats.set(address, repeat + 1);
      const name = `${address}#${repeat}`;
      const health = before.get(name)?.health ?? new ServerHealth(upstream, this.#options);
      return { upstream, name, weight: upstream.weight ?? 1, health };
    });
    for (const member of members) {
      member.health.hasStandIn = members.some((other) => isStandIn(other, member));
    }
    this.#members = members;
    this.#groups = Map.groupBy(
      members.filter(({ weight }) => weight > 0),
      ({ upstream }) => upstream.modelName,
    );
    const kept = new Set(members.map(({ health }) => health));
    for (const { health } of before.values()) if (!kept.has(health)) health.close();
    this.#options.onAvailable();
  }

  /** Whether `choose` would have an answer now. */
  serves(wish: Wish): boolean {
    return this.#candidates(wish).length > 0;
  }

  choose(wish: Wish): Target | undefined {
    const candidates = this.#candidates(wish);
    const chosen =
      wish.rolloutId === undefined
        ? pickByWeight(candidates, this.#options.random())
        : rendezvous(wish.rolloutId, candidates);
    chosen?.health.chosen();
    return chosen;
  }

  /** Another server of the same model that can be tried. */
  hasAnother({ upstream: { modelName }, health }: Target): boolean {
    return this.#group(modelName).some((member) => member.health !== health && member.health.isAvailable);
  }

  names(): string[] {
    return [...new Set(this.#members.map(({ upstream }) => upstream.modelName))];
  }

  report(): ServerReport[] {
    return this.#members.map(({ upstream, health }) => ({
      model_name: upstream.modelName,
      server: serverName(upstream),
      checkpoint: upstream.checkpoint,
      state: health.state,
      failures: health.failures,
      times_out: health.timesOut,
    }));
  }

  close(): void {
    for (const { health } of this.#members) health.close();
  }

  #group(modelName: string): Member[] {
    return this.#groups.get(modelName) ?? [];
  }

  /** Where all are left out, a call goes to one that may at least answer, and if it cannot wait, to any. */
  #candidates({ modelName, mayWait }: Wish): Member[] {
    const group = this.#group(modelName);
    if (group.every(({ health }) => health.isAvailable)) return group;
    const available = group.filter(({ health }) => health.isAvailable);
    if (available.length > 0) return available;
    const reachable = group.filter(({ health }) => !health.isUnreachable);
    return reachable.length > 0 || mayWait ? reachable : group;
  }
}

function addressOf({ modelName, model, baseUrl, unixSocket = "" }: Upstream): string {
  return JSON.stringify([modelName, model, baseUrl, unixSocket]);
}

function isStandIn(other: Member, member: Member): boolean {
  return (
    other.upstream.modelName === member.upstream.modelName && other.name !== member.name && other.weight > 0
  );
}

/** `point` is at least 0 and below 1. */
function pickByWeight(group: readonly Member[], point: number): Member | undefined {
  const total = group.reduce((sum, { weight }) => sum + weight, 0);
  let left = point * total;
  for (const member of group) {
    left -= member.weight;
    if (left < 0) return member;
  }
  // Rounding may leave a last crumb.
  return group.at(-1);
}
