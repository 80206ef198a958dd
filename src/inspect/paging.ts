import type { Mode, RolloutStatus } from "../protocol/enums.ts";
import type {
  Attempt,
  AttemptedRollout,
  Page,
  ResourcesUpdate,
  Rollout,
  Span,
  Worker,
} from "../protocol/types.ts";
import type { RecordReading } from "../store/record-reader.ts";
import type { StoreReading } from "../store/store-reader.ts";

export interface RolloutFilter {
  rolloutIds?: readonly string[];
  statuses?: readonly RolloutStatus[];
  modes?: readonly Mode[];
  /** Unix seconds: made then or later. */
  since?: number;
  /** Unix seconds: made before. */
  until?: number;
}

const rolloutsAtOnce = 200;
const spansAtOnce = 200;
const resourcesAtOnce = 50;
const workersAtOnce = 200;

/**
 * In the order in which they were made. All but the ids is judged here: a page of a filtered list would shift while
 * rollouts of a live run change, and some stores do not know the filter by mode.
 */
export async function* eachRollout(
  store: StoreReading,
  filter: RolloutFilter = {},
): AsyncGenerator<Rollout | AttemptedRollout> {
  const { rolloutIds, statuses, modes, since, until } = filter;
  const scope = rolloutIds === undefined ? {} : { rollout_id_in: [...rolloutIds] };
  for await (const rollout of eachItem(rolloutsAtOnce, (page) =>
    store.queryRollouts({ ...scope, ...page }),
  )) {
    if (statuses !== undefined && !statuses.includes(rollout.status)) continue;
    if (modes !== undefined && (rollout.mode === null || !modes.includes(rollout.mode))) continue;
    if (since !== undefined && rollout.start_time < since) continue;
    if (until !== undefined && rollout.start_time >= until) continue;
    yield rollout;
  }
}

export function eachAttempt(store: StoreReading, rolloutId: string): AsyncGenerator<Attempt> {
  return eachItem(rolloutsAtOnce, (page) => store.queryAttempts(rolloutId, page));
}

/** In order. A span that comes late moves others to the next page; none is given twice. */
export async function* eachSpan(
  store: StoreReading,
  rolloutId: string,
  attemptId?: string,
): AsyncGenerator<Span> {
  const seen = new Set<string>();
  const scope = { rollout_id: rolloutId, ...(attemptId === undefined ? {} : { attempt_id: attemptId }) };
  for await (const span of eachItem(spansAtOnce, (page) => store.querySpans({ ...scope, ...page }))) {
    const key = `${span.attempt_id} ${span.span_id}`;
    if (seen.has(key)) continue;
    seen.add(key);
    yield span;
  }
}

/** In the order in which they were made. */
export function eachResources(store: Pick<RecordReading, "queryResources">): AsyncGenerator<ResourcesUpdate> {
  return eachItem(resourcesAtOnce, (page) => store.queryResources(page));
}

export function eachWorker(store: Pick<RecordReading, "queryWorkers">): AsyncGenerator<Worker> {
  return eachItem(workersAtOnce, (page) => store.queryWorkers(page));
}

type Paged = { limit: number; offset: number };

async function* eachItem<Item>(
  limit: number,
  ask: (page: Paged) => Promise<Page<Item>>,
): AsyncGenerator<Item> {
  for (let offset = 0; ; offset += limit) {
    const { items } = await ask({ limit, offset });
    yield* items;
    if (items.length < limit) return;
  }
}
