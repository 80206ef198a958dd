import { createRandom } from "../../src/algorithm/random.ts";
import { planRollout, sleepOf } from "./agent-plan.ts";
import type { AgentShape } from "./agent-plan.ts";

export interface Scenario extends AgentShape {
  name: string;
  tasks: number;
  /** `batch` waits for a whole batch; `partial` tops up below `inFlight`; `single` has one waiter per rollout. */
  mode: "batch" | "partial" | "single";
  batch: number;
  /** For `partial` and `single`. */
  inFlight: number;
  runners: number;
  /** The best published rollouts per second, with 32 or 64 cores and so many tasks; absent where none was published. */
  published?: { rate: number; tasks: number; batch: number };
}

/** agentlightning's published workloads; only the tasks of `minimal` (4,096) and `heavy traces` (10,000) are cut. */
export const scenarios: Scenario[] = [
  scenario("minimal", "batch", [512, 256, 0, 32, 6, 0.5], 9.06, 4_096),
  scenario("medium", "batch", [10_000, 1_000, 0, 100, 10, 0.1], 32.8),
  scenario("mid-high", "batch", [20_000, 2_048, 0, 300, 6, 0.1], 40.2),
  scenario("large", "batch", [50_000, 8_192, 0, 1_000, 3, 0.1], 50.1),
  scenario("long queue", "partial", [50_000, 1_024, 4_096, 256, 4, 0.1], 57.0),
  scenario("high concurrency", "single", [50_000, 1, 2_048, 256, 2, 0.1]),
  scenario("heavy traces", "partial", [1_500, 1_024, 256, 512, 20, 1.0], 29.4, 10_000),
];

function scenario(
  name: string,
  mode: Scenario["mode"],
  [tasks, batch, inFlight, runners, maxRounds, sleepSeconds]: [
    number,
    number,
    number,
    number,
    number,
    number,
  ],
  rate?: number,
  publishedTasks = tasks,
): Scenario {
  const sizes = { tasks, batch, inFlight, runners, maxRounds, sleepSeconds };
  if (rate === undefined) return { name, mode, ...sizes };
  return { name, mode, ...sizes, published: { rate, tasks: publishedTasks, batch } };
}

/** Fewer tasks and smaller batches, in proportion; the agent and the runners stay. */
export function scaled(original: Scenario, scale: number): Scenario {
  if (scale === 1) return original;
  const tasks = Math.max(original.runners, Math.round(original.tasks * scale));
  const batches = Math.max(1, Math.round(original.tasks / original.batch));
  const batch = original.mode === "single" ? 1 : Math.max(original.runners, Math.ceil(tasks / batches));
  return { ...original, tasks, batch };
}

/** Rollouts per second of the same agent when the store costs nothing: only sleeps, runners and batches bound it. */
export function sleepBoundIdeal(scenario: Scenario): number {
  const random = createRandom(7);
  const { tasks, runners, mode, batch, inFlight } = scenario;
  const duration = () => sleepOf(planRollout(random, scenario));
  const ends: number[] = [];
  let submitted = 0;
  let now = 0;
  let queued = 0;
  // Runners that are busy, as the times at which they end.
  let busy: number[] = [];
  while (ends.length < tasks) {
    const open = queued + busy.length;
    const room = mode === "batch" ? open === 0 : open < inFlight;
    if (room && submitted < tasks) {
      const more = Math.min(batch, tasks - submitted);
      submitted += more;
      queued += more;
    }
    while (queued > 0 && busy.length < runners) {
      queued -= 1;
      pushHeap(busy, now + duration());
    }
    if (mode !== "batch" && submitted < tasks && queued + busy.length < inFlight) continue;
    now = popHeap(busy);
    ends.push(now);
  }
  return tasks / now;
}

function pushHeap(heap: number[], value: number): void {
  let child = heap.push(value) - 1;
  while (child > 0) {
    const parent = (child - 1) >> 1;
    if (heap[parent]! <= value) break;
    heap[child] = heap[parent]!;
    child = parent;
  }
  heap[child] = value;
}

function popHeap(heap: number[]): number {
  const least = heap[0]!;
  const last = heap.pop()!;
  if (heap.length === 0) return least;
  let parent = 0;
  for (;;) {
    let child = 2 * parent + 1;
    if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child += 1;
    if (child >= heap.length || heap[child]! >= last) break;
    heap[parent] = heap[child]!;
    parent = child;
  }
  heap[parent] = last;
  return least;
}
