import { describe, expect, test } from "bun:test";
import { storeRequests } from "../helpers/store-requests.ts";
import { sampleSpan } from "../helpers/sample-span.ts";

async function started() {
  const requests = storeRequests();
  const { rollout_id, attempt } = await requests.store.startRollout({ input: 1 });
  return { ...requests, ids: { rollout_id, attempt_id: attempt.attempt_id } };
}

describe("a 422", () => {
  // section 1.4
  test("names every problem, its place and its value", async () => {
    const { post } = storeRequests();
    const rollouts = [{ input: 1, mode: "exam" }, { mode: "val" }];
    const { status, body } = await post("/queues/rollouts/enqueue", { rollouts });
    expect(status).toBe(422);
    expect(body.detail).toEqual([
      {
        type: "picklist_type",
        loc: ["body", "rollouts", 0, "mode"],
        msg: expect.stringContaining('"val"'),
        input: "exam",
      },
      {
        type: "missing",
        loc: ["body", "rollouts", 1, "input"],
        msg: "Field required",
        input: { mode: "val" },
      },
    ]);
  });

  // The list of problems once grew to fifty times the request.
  test("stays small, however many problems there are and however large the values", async () => {
    const { post } = storeRequests();
    const some = await post("/queues/rollouts/enqueue", { rollouts: Array.from({ length: 500 }, () => 1) });
    expect(some.body.detail).toHaveLength(101);
    expect(some.body.detail.at(-1)).toMatchObject({ msg: "400 more problems are not listed", loc: ["body"] });
    const many = await post("/queues/rollouts/enqueue", {
      rollouts: Array.from({ length: 20_000 }, () => 1),
    });
    expect(many.body.detail).toMatchObject([{ loc: ["body", "rollouts", 0] }]);
    const large = await post("/rollouts", { input: 1, mode: "x".repeat(100_000), config: 1 });
    expect(large.body.detail).toMatchObject([{ input: "(too long to be repeated)" }, { input: 1 }]);
    expect(large.text.length).toBeLessThan(5_000);
  });

  test("refuses a batch of more spans than can be answered one by one", async () => {
    const { post } = storeRequests();
    const refused = await post("/spans/batch", `{"spans":[${"1,".repeat(100_000)}1]}`);
    expect(refused.status).toBe(422);
    expect(refused.text.length).toBeLessThan(5_000);
    expect(refused.body.detail[0]).toMatchObject({
      loc: ["body", "spans"],
      msg: "List should have at most 100000 items",
    });
  });
});

describe("resources", () => {
  // section 3.14
  test.each([
    [{ endpoint: "e", model: "m" }, "union_tag_not_found"],
    [{ endpoint: "e", model: "m", resource_type: "gguf" }, "union_tag_invalid"],
  ])("%p is refused as %s", async (resource, type) => {
    const { status, body } = await storeRequests().post("/resources", { main_llm: resource });
    expect(status).toBe(422);
    expect(body.detail).toMatchObject([{ type, loc: ["body", "main_llm", "resource_type"] }]);
  });
});

describe("spans", () => {
  const context = { trace_id: "t", span_id: "s", is_remote: false, trace_state: {} };
  const without = (object: object, member: string) =>
    Object.fromEntries(Object.entries(object).filter(([name]) => name !== member));

  // E-21, section 4.9
  test.each([
    ["status.status_code", { status: { description: null } }],
    ["events.0.name", { events: [{ attributes: {}, timestamp: null }] }],
    ["events.0.attributes", { events: [{ name: "e", timestamp: null }] }],
    ["links.0.context", { links: [{ attributes: null }] }],
    ["resource.attributes", { resource: { schema_url: "" } }],
    ["resource.schema_url", { resource: { attributes: {} } }],
    ...Object.keys(context).flatMap((member): [string, object][] => [
      [`context.${member}`, { context: without(context, member) }],
      [`parent.${member}`, { parent: without(context, member) }],
      [`links.0.context.${member}`, { links: [{ context: without(context, member) }] }],
    ]),
  ])("%s is required", async (place, members) => {
    const { post, ids } = await started();
    const { status, body } = await post("/spans", { ...sampleSpan(ids), ...members });
    expect(status).toBe(422);
    const missing = body.detail.map(({ type, loc }: any) => `${type} ${loc.slice(1).join(".")}`);
    expect(missing).toEqual([`missing ${place}`]);
  });

  // D-9, sections 4.3 and 4.9
  test.each([
    ["an event", "events", { events: [{ name: "e", attributes: { a: null } }] }],
    ["a link", "links", { links: [{ context, attributes: { a: {} } }] }],
    ["the resource", "resource", { resource: { attributes: { a: ["x", 1] }, schema_url: "" } }],
    ["a trace state", "context", { context: { ...context, trace_state: { a: 1 } } }],
    ["a status", "status", { status: { status_code: "ok" } }],
  ])("what %s must not hold is refused", async (_name, member, members) => {
    const { post, ids } = await started();
    const { status, body } = await post("/spans", { ...sampleSpan(ids), ...members });
    expect(status).toBe(422);
    expect(body.detail[0].loc.slice(0, 2)).toEqual(["body", member]);
  });

  // E-22
  test.each([0, -7, Number.MAX_SAFE_INTEGER])("sequence number %d is taken as given", async (sequence_id) => {
    const { post, ids } = await started();
    expect((await post("/spans", sampleSpan({ ...ids, sequence_id }))).body.sequence_id).toBe(sequence_id);
  });

  // E-22: it would come back as another number.
  test("a sequence number beyond 2^53 is refused, with the range", async () => {
    const { post, ids } = await started();
    const text = JSON.stringify(sampleSpan(ids)).replace('"sequence_id":1', '"sequence_id":9007199254740993');
    const { status, body } = await post("/spans", text);
    expect(status).toBe(422);
    expect(body.detail[0]).toMatchObject({
      loc: ["body", "sequence_id"],
      msg: expect.stringContaining("2^53"),
    });
  });
});
