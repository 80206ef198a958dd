import { describe, expect, test } from "bun:test";
import { StoreRequestError } from "../../src/errors.ts";
import type { Paging, RolloutQuery } from "../../src/protocol/store-api.ts";
import type { Span } from "../../src/protocol/types.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";

async function fourRollouts() {
  const store = memoryStore();
  const [a, b, c, d] = await store.enqueueRollouts([
    { input: "a", mode: "val" },
    { input: "b" },
    { input: "c", mode: "train", resources_id: "rs-2" },
    { input: "d", mode: "train", resources_id: "rs-1" },
  ]);
  await store.updateRollout(b!.rollout_id, { status: "failed" });
  await store.updateRollout(d!.rollout_id, { status: "succeeded" });
  const ids = { a: a!.rollout_id, b: b!.rollout_id, c: c!.rollout_id, d: d!.rollout_id };
  const find = async (query: RolloutQuery) =>
    (await store.queryRollouts(query)).items.map(({ input }) => input).join("");
  return { store, ids, find };
}

describe("rollout queries", () => {
  // E-8, T-8, T-10
  test("filters and how they combine", async () => {
    const { ids, find } = await fourRollouts();
    expect(await find({})).toBe("abcd");
    expect(await find({ status_in: ["failed", "succeeded"] })).toBe("bd");
    expect(await find({ status_in: [] })).toBe("");
    expect(await find({ status_in: null, rollout_id_in: null })).toBe("abcd");
    expect(await find({ rollout_id_in: [ids.c, ids.a, "ro-x"] })).toBe("ac");
    expect(await find({ rollout_id_contains: ids.b.slice(3) })).toBe("b");
    expect(await find({ rollout_id_contains: ids.b.slice(3).toUpperCase() + "R" })).toBe("");
    expect(await find({ rollout_id_contains: "" })).toBe("abcd");
    expect(await find({ status_in: ["failed"], rollout_id_in: [ids.a] })).toBe("");
    expect(await find({ status_in: ["failed"], rollout_id_in: [ids.a], filter_logic: "or" })).toBe("ab");
    const both = { rollout_id_in: [ids.a], rollout_id_contains: ids.d, filter_logic: "or" as const };
    expect(await find(both)).toBe("ad");
    expect(await find({ filter_logic: "or" })).toBe("abcd");
    // C-5
    expect(await find({ mode_in: ["train"] })).toBe("cd");
  });

  // T-11, T-12
  test("sorting places nulls and keeps insertion order in ties, in both directions", async () => {
    const { find } = await fourRollouts();
    expect(await find({ sort_by: "mode" })).toBe("bcda");
    expect(await find({ sort_by: "mode", sort_order: "desc" })).toBe("acdb");
    expect(await find({ sort_by: "resources_id" })).toBe("abdc");
    expect(await find({ sort_by: "resources_id", sort_order: "desc" })).toBe("cdab");
    expect(await find({ sort_by: "end_time" })).toBe("bdac");
    expect(await find({ sort_by: "end_time", sort_order: "desc" })).toBe("acdb");
    expect(await find({ sort_by: "start_time", sort_order: "desc" })).toBe("dcba");
    expect(await find({ sort_by: null, sort_order: "desc" })).toBe("abcd");
  });

  //
  test("pages", async () => {
    const { store, find } = await fourRollouts();
    expect(await find({ limit: 2, offset: 1 })).toBe("bc");
    expect(await store.queryRollouts({ limit: 2, offset: 9 })).toEqual({
      items: [],
      limit: 2,
      offset: 9,
      total: 4,
    });
    expect(await store.queryRollouts({ status_in: ["failed"], limit: 1 })).toMatchObject({
      total: 1,
      limit: 1,
    });
    expect(await store.queryRollouts({})).toMatchObject({ total: 4, limit: -1, offset: 0 });
  });

  // T-36
  test.each<[Paging, string]>([
    [{ limit: 0 }, "Limit must be greater than 0 or -1 for no limit"],
    [{ limit: -2 }, "Limit must be greater than 0 or -1 for no limit"],
    [{ offset: -1 }, "Offset must be greater than or equal to 0"],
    [{ sort_by: "" }, "Invalid sort_by: , allowed fields are: rollout_id, input, start_time,"],
    [{ sort_by: "attempt" }, "Invalid sort_by: attempt, allowed fields are: "],
    [{ sort_by: "toString" }, "Invalid sort_by: toString, allowed fields are: "],
    [{ sort_by: "config" }, "Cannot sort by config"],
  ])("%p is refused", async (paging, detail) => {
    const error = await memoryStore()
      .queryRollouts(paging)
      .catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreRequestError);
    expect(error.status).toBe(400);
    expect(error.detail).toStartWith(detail);
  });

  // section 3.6, D-7, D-8, T-1
  test("a rollout with an attempt carries its latest, one without has no such member", async () => {
    const { store, ids } = await fourRollouts();
    await store.startAttempt(ids.a);
    const second = await store.startAttempt(ids.a);
    const [first, plain] = (await store.queryRollouts({ limit: 2 })).items;
    expect(first).toEqual(second);
    expect(plain).not.toHaveProperty("attempt");
  });

  // C-5
  test("the names that the dashboard sorts by", async () => {
    const { store, ids, find } = await fourRollouts();
    await store.startAttempt(ids.c, "w");
    expect(await find({ sort_by: "worker_id", sort_order: "desc" })).toBe("cabd");
    for (const sort_by of ["attempt_id", "last_heartbeat_time", "duration"]) {
      expect(await find({ sort_by })).toHaveLength(4);
    }
  });
});

describe("span queries", () => {
  async function spansOfTwoAttempts() {
    const store = memoryStore();
    const { rollout_id, attempt: first } = await store.startRollout({ input: 1 });
    const { attempt: second } = await store.startAttempt(rollout_id);
    const one = { rollout_id, attempt_id: first.attempt_id };
    const two = { rollout_id, attempt_id: second.attempt_id };
    await store.addSpans([
      sampleSpan({ ...one, sequence_id: 2, name: "llm.b", parent_id: "p1", end_time: null }),
      sampleSpan({ ...one, sequence_id: 1, name: "llm.a", trace_id: "t2" }),
      sampleSpan({ ...two, sequence_id: 1, name: "Tool", start_time: null }),
      sampleSpan({
        ...two,
        sequence_id: 1,
        name: "reward",
        status: { status_code: "ERROR", description: null },
      }),
    ]);
    const names = (items: Span[]) => items.map(({ name }) => name).join(" ");
    const find = async (query: object) => names((await store.querySpans({ rollout_id, ...query })).items);
    return { store, rollout_id, one, two, find };
  }

  // T-15
  test("the default order is the sequence number, ties in insertion order", async () => {
    const { find } = await spansOfTwoAttempts();
    expect(await find({})).toBe("llm.a Tool reward llm.b");
    expect(await find({ sort_order: "desc" })).toBe("llm.b llm.a Tool reward");
    expect(await find({ sort_by: undefined })).toBe("llm.a Tool reward llm.b");
    expect(await find({ sort_by: null })).toBe("llm.b llm.a Tool reward");
    expect(await find({ sort_by: "name" })).toBe("Tool llm.a llm.b reward");
    expect(await find({ sort_by: "parent_id", sort_order: "desc" })).toStartWith("llm.b ");
    expect(await find({ sort_by: "start_time" })).toEndWith(" Tool");
    expect(await find({ sort_by: "end_time", sort_order: "desc" })).toStartWith("llm.b ");
    expect(await find({ sort_by: "status_code" })).toStartWith("reward ");
    expect(await find({ sort_by: "duration" })).toHaveLength(23);
  });

  // Q-3, T-9
  test("or never widens the scope", async () => {
    const { store, one, find } = await spansOfTwoAttempts();
    const { rollout_id, attempt } = await store.startRollout({ input: 2 });
    await store.addSpan(sampleSpan({ rollout_id, attempt_id: attempt.attempt_id, name: "llm.other" }));
    const query = { name_contains: "llm", trace_id: "t2", filter_logic: "or" };
    expect(await find(query)).toBe("llm.a llm.b");
    expect(await find({ ...query, filter_logic: "and" })).toBe("llm.a");
    expect(await find({ attempt_id: one.attempt_id, name: "Tool", filter_logic: "or" })).toBe("");
    //
    expect(await find({ attempt_id: one.attempt_id, filter_logic: "or" })).toBe("llm.a llm.b");
  });

  //
  test("contains is case-sensitive and never matches null", async () => {
    const { find } = await spansOfTwoAttempts();
    expect(await find({ name_contains: "tool" })).toBe("");
    expect(await find({ name_contains: "Too" })).toBe("Tool");
    expect(await find({ name_contains: "%" })).toBe("");
    expect(await find({ parent_id_contains: "" })).toBe("llm.b");
    expect(await find({ parent_id: "p1" })).toBe("llm.b");
  });

  //
  test("latest is the latest attempt, even without spans", async () => {
    const { store, rollout_id, find } = await spansOfTwoAttempts();
    expect(await find({ attempt_id: "latest" })).toBe("Tool reward");
    await store.startAttempt(rollout_id);
    expect(await find({ attempt_id: "latest" })).toBe("");
    const unknown = { rollout_id: "ro-x", attempt_id: "latest", limit: 7, offset: 3 };
    expect(await store.querySpans(unknown)).toEqual({ items: [], limit: 7, offset: 3, total: 0 });
    await expect(store.querySpans({ ...unknown, limit: 0 })).rejects.toThrow("Limit must");
  });
});

describe("attempts, workers and resources", () => {
  // section 3.10, Q-10
  test("attempts are sorted by number unless asked otherwise", async () => {
    const store = memoryStore();
    const { rollout_id } = await store.startRollout({ input: 1, worker_id: "z" });
    await store.startAttempt(rollout_id);
    await store.startAttempt(rollout_id, "a");
    const numbers = async (paging?: Paging) =>
      (await store.queryAttempts(rollout_id, paging)).items.map(({ sequence_id }) => sequence_id).join("");
    expect(await numbers()).toBe("123");
    expect(await numbers({ sort_order: "desc", limit: 2 })).toBe("32");
    expect(await numbers({ sort_by: "worker_id" })).toBe("231");
    expect(await numbers({ sort_by: null, sort_order: "desc" })).toBe("123");
    expect(await store.queryAttempts("ro-x")).toMatchObject({ items: [], total: 0 });
  });

  // K-8, T-28, section 3.18
  test("workers are filtered and a heartbeat keeps statistics and status", async () => {
    const store = memoryStore();
    await store.updateWorker("Worker-0", { cpu: 1 });
    await store.dequeueRollouts({ worker_id: "Worker-1" });
    await store.updateWorker("Worker-1");
    expect(await store.updateWorker("Worker-0")).toMatchObject({
      status: "unknown",
      heartbeat_stats: { cpu: 1 },
      last_heartbeat_time: expect.any(Number),
    });
    const ids = async (query: object) =>
      (await store.queryWorkers(query)).items.map(({ worker_id }) => worker_id).join();
    expect(await ids({ status_in: ["idle"] })).toBe("Worker-1");
    expect(await ids({ worker_id_contains: "0" })).toBe("Worker-0");
    const both = { status_in: ["idle" as const], worker_id_contains: "0" };
    expect(await ids(both)).toBe("");
    expect(await ids({ ...both, filter_logic: "or" })).toBe("Worker-0,Worker-1");
  });

  // K-2, T-28
  test("statistics survive a change of status with their digits", async () => {
    const store = memoryStore();
    await store.updateWorker("w", { cpu: JSON.parse("0.5") });
    const { rollout_id } = await store.startRollout({ input: 1, worker_id: "w" });
    await store.updateAttempt(rollout_id, "latest", { status: "succeeded" });
    expect((await store.getWorker("w"))?.heartbeat_stats).toEqual({ cpu: 0.5 });
  });

  // G-1, G-2, T-39, section 3.14
  test("an updated snapshot counts up, keeps its creation and becomes the latest", async () => {
    const store = memoryStore();
    const prompt = { resource_type: "prompt_template", template: "t", engine: "jinja" } as const;
    const first = await store.addResources({ prompt });
    expect(first.version).toBe(1);
    expect(first.resources_id).toMatch(/^rs-[0-9a-f]{12}$/);
    expect(first.update_time).toBe(first.create_time);
    const second = await store.addResources({});
    expect(await store.getLatestResources()).toEqual(second);
    const updated = await store.updateResources(first.resources_id, {});
    expect(updated).toMatchObject({ version: 2, create_time: first.create_time, resources: {} });
    expect(updated.update_time).toBeGreaterThan(first.update_time);
    expect(await store.getLatestResources()).toEqual(updated);
    expect(await store.getResources(second.resources_id)).toEqual(second);
    expect(await store.getResources("nowhere")).toBeNull();
    const ids = (await store.queryResources({})).items.map(({ resources_id }) => resources_id);
    expect(ids).toEqual([first.resources_id, second.resources_id]);
    expect((await store.queryResources({ resources_id: "rs" })).total).toBe(0);
    expect((await store.queryResources({ resources_id_contains: "rs-" })).total).toBe(2);
  });

  // G-2, G-3
  test("versions count per id, and a rollout sees what its id holds now", async () => {
    const store = memoryStore();
    const template = (text: string) =>
      ({ prompt: { resource_type: "prompt_template", template: text, engine: "jinja" } }) as const;
    for (const text of ["a1", "a2", "a3"]) await store.updateResources("a", template(text));
    expect((await store.updateResources("b", {})).version).toBe(1);
    const [rollout] = await store.enqueueRollouts([{ input: 1, resources_id: "a" }]);
    await store.updateResources("a", template("a4"));
    const [taken] = await store.dequeueRollouts({});
    expect(taken?.rollout_id).toBe(rollout!.rollout_id);
    expect(await store.getResources(taken!.resources_id!)).toMatchObject({
      version: 4,
      resources: template("a4"),
    });
  });

  // section 4.12
  test("statistics count rows and the uptime grows", async () => {
    const store = memoryStore();
    await store.addResources({});
    const { rollout_id, attempt } = await store.startRollout({ input: 1, worker_id: "w" });
    await store.addSpan(sampleSpan({ rollout_id, attempt_id: attempt.attempt_id }));
    const first = await store.statistics();
    expect(first).toMatchObject({
      total_rollouts: 1,
      total_attempts: 1,
      total_spans: 1,
      total_resources: 1,
      total_workers: 1,
    });
    expect((await store.statistics()).uptime).toBeGreaterThan(first.uptime);
  });
});
