import { describe, expect, test } from "bun:test";
import { stringifyJson } from "../../src/protocol/json.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { storeRequests } from "../helpers/store-requests.ts";

const opaque = [
  '{"z":null,"a":[1.0,2,12345678901234567890],"2":{"10":0,"9":[]},"1":{}}',
  '{"text":"größe \\ud800 \\u0000 \\" \\\\ 😀 /","empty":"","":0.1}',
  '{"constructor":1,"__proto__":{"prototype":[true]},"toString":null}',
];

async function started() {
  const requests = storeRequests();
  const { rollout_id, attempt } = await requests.store.startRollout({ input: 1 });
  return { ...requests, ids: { rollout_id, attempt_id: attempt.attempt_id } };
}

// D-4, T-31
describe.each(opaque)("%s comes back unchanged", (text) => {
  test("as input and metadata of a rollout", async () => {
    const { get, post } = storeRequests();
    const members = `"input":${text},"start_time":`;
    const metadata = `"metadata":${text}`;
    const answer = await post("/rollouts", `{"input":${text},${metadata}}`);
    const path = `/rollouts/${answer.body.rollout_id}`;
    const updated = await post(path, `{"input":${text},${metadata}}`);
    const queued = await post("/queues/rollouts/enqueue", `{"rollouts":[{"input":${text},${metadata}}]}`);
    const taken = await post("/queues/rollouts/dequeue");
    for (const found of [answer, updated, queued, taken, await get(path), await get("/rollouts")]) {
      expect(found.text).toContain(members);
      expect(found.text).toContain(metadata);
    }
  });

  test("as metadata of an attempt and statistics of a worker", async () => {
    const { get, post, ids } = await started();
    const attempts = `/rollouts/${ids.rollout_id}/attempts`;
    const updated = await post(`${attempts}/latest`, `{"metadata":${text}}`);
    const heartbeat = await post("/workers/w", `{"heartbeat_stats":${text}}`);
    expect(updated.text).toContain(`"metadata":${text}`);
    expect((await get(attempts)).text).toContain(`"metadata":${text}`);
    expect(heartbeat.text).toContain(`"heartbeat_stats":${text}`);
    expect((await get("/workers")).text).toContain(`"heartbeat_stats":${text}`);
  });

  test("as sampling parameters, and in a resource's name", async () => {
    const { get, post } = storeRequests();
    const resource = `{"resource_type":"llm","endpoint":"e","model":"m","api_key":null,"sampling_parameters":${text}}`;
    const resources = `{"constructor":${resource},"2":${resource},"1":${resource}}`;
    expect((await post("/resources", resources)).text).toContain(`"resources":${resources}`);
    expect((await get("/resources/latest")).text).toContain(`"resources":${resources}`);
  });

  // D-3, T-33
  test("as unknown members of a span and its parts", async () => {
    const { post, ids } = await started();
    const context = `{"trace_id":"t","span_id":"s","is_remote":true,"trace_state":{"constructor":"c"},"flags":${text}}`;
    const members = [
      `"status":{"status_code":"OK","description":null,"extra":${text}}`,
      `"attributes":{"n":12345678901234567890,"2":1.0,"1":"b","__proto__":true}`,
      `"events":[{"name":"e","attributes":{},"timestamp":1,"extra":${text}}]`,
      `"links":[{"context":${context},"attributes":null,"extra":${text}}]`,
      `"context":${context},"parent":${context}`,
    ];
    const other = JSON.stringify(sampleSpan(ids)).slice(0, -1);
    const stored = await post("/spans", `${other},${members.join()},"constructor":${text},"kind":${text}}`);
    for (const found of [stored, await post("/spans/search", ids)]) {
      for (const member of members) expect(found.text).toContain(member);
      expect(found.text).toContain(`"constructor":${text},"kind":${text}}`);
    }
  });
});

// D-5
test.each(["null", "true", "0", "1.0", '"text"', "[]", "{}", '[[null],{"a":""}]'])(
  "%s is an input like any other",
  async (input) => {
    const { get, post } = storeRequests();
    const [rollout] = (await post("/queues/rollouts/enqueue", `{"rollouts":[{"input":${input}}]}`)).body;
    expect((await get(`/rollouts/${rollout.rollout_id}`)).text).toContain(`"input":${input},`);
  },
);

// D-3, W-11
test("unknown members of anything but a span are dropped", async () => {
  const { get, post, ids } = await started();
  const extra = { zzz: 1 };
  await post("/queues/rollouts/enqueue", { rollouts: [{ input: 1, ...extra, config: extra }], ...extra });
  await post("/queues/rollouts/dequeue", { limit: 1, worker_id: "w", ...extra });
  await post("/rollouts", { input: 1, ...extra });
  await post(`/rollouts/${ids.rollout_id}`, { mode: "val", ...extra });
  await post(`/rollouts/${ids.rollout_id}/attempts`, extra);
  await post(`/rollouts/${ids.rollout_id}/attempts/latest`, { worker_id: "v", ...extra });
  await post("/workers/w", { heartbeat_stats: {}, ...extra });
  await post("/resources", { llm: { resource_type: "llm", endpoint: "e", model: "m", ...extra } });
  await post("/spans", sampleSpan({ ...ids, resource: { attributes: {}, schema_url: "", ...extra } }));
  await post("/waits/rollouts", { rollout_ids: [], timeout: 0, ...extra });
  const spans = await post("/spans/search", { rollout_id: ids.rollout_id, ...extra });
  const pages = [
    await get("/rollouts?zzz=1"),
    await post("/rollouts/search", extra),
    await get(`/rollouts/${ids.rollout_id}/attempts?zzz=1`),
    await get("/workers?zzz=1"),
    await get("/resources?zzz=1"),
    spans,
  ];
  for (const { status, body, text } of pages) {
    expect(status).toBe(200);
    expect(body.total).toBeGreaterThan(0);
    expect(text).not.toContain("zzz");
  }
});

// D-11: what Python's tracer adds to a span that is still alive.
test("a span made from Python's span object keeps its members", async () => {
  const { post, ids } = await started();
  const own = {
    kind: "SpanKind.INTERNAL",
    instrumentation_scope: "InstrumentationScope(agentlightning, None, None, None)",
    limits: "SpanLimits(max_attributes=128)",
    set_status_on_exception: true,
  };
  await post("/spans", stringifyJson({ ...sampleSpan(ids), ...own }));
  expect((await post("/spans/search", ids)).body.items).toMatchObject([own]);
});
