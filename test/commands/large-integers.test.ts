import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { serveStore, type StoreServer } from "../../src/server/serve.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { otlpRequest, type OtlpValue } from "../helpers/protobuf-writer.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const db = join(folder, "store.db");
let store: SqliteStore;
let server: StoreServer;

beforeAll(async () => {
  store = openStore({ path: db });
  server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
  await fill();
});

afterAll(async () => {
  await server.stop();
  await store.close();
});

/** None of them is a JavaScript number; the first two are the ends of 64 bits, the rest are nanoseconds of one day. */
const integers = {
  input: "9223372036854775807",
  metadata: "-9223372036854775808",
  rolloutUpdate: "1766538002123456789",
  attempt: "1766538002123456791",
  resources: "18446744073709551615",
  statistics: "1766538002123456793",
  attribute: "1766538002123456795",
  list: "1766538002123456797",
  event: "1766538002123456799",
  link: "1766538002123456801",
  spanResource: "1766538002123456803",
  extraMember: "1766538002123456805",
  batch: "9007199254740993",
  otlp: "1766538002123456807",
  otlpEvent: "-1766538002123456809",
  otlpLink: "1766538002123456811",
  otlpList: "1766538002123456813",
  otlpResource: "9223372036854775806",
  otlpJson: "1766538002123456815",
  otlpJsonText: "1766538002123456817",
};
const { resources: ofResources, statistics: ofWorker, ...others } = integers;
const { input, metadata, rolloutUpdate, attempt, ...ofSpans } = others;

let rolloutId: string;

async function send(path: string, body: string | Uint8Array, type = "application/json"): Promise<any> {
  const answer = await fetch(server.url + path, {
    method: "POST",
    body: body as BodyInit,
    headers: { "content-type": type },
  });
  const text = await answer.text();
  expect([200, 201]).toContain(answer.status);
  return type === "application/json" ? JSON.parse(text) : text;
}

/** Every way in, as the text that a client sends: `JSON.stringify` could not write these numbers. */
async function fill(): Promise<void> {
  const resources = `{"m":{"resource_type":"llm","endpoint":"e","model":"m","sampling_parameters":{"seed":${ofResources}}}}`;
  await send("/v1/agl/resources", resources);
  await send("/v1/agl/workers/w", `{"heartbeat_stats":{"at":${ofWorker}}}`);
  const started = await send("/v1/agl/rollouts", `{"input":{"n":${input}},"metadata":{"n":${metadata}}}`);
  rolloutId = started.rollout_id;
  const path = `/v1/agl/rollouts/${rolloutId}`;
  await send(path, `{"metadata":{"n":${metadata},"at":${rolloutUpdate}}}`);
  await send(`${path}/attempts/latest`, `{"metadata":{"at":${attempt}}}`);
  const ids = { rollout_id: rolloutId, attempt_id: started.attempt.attempt_id as string };
  await fillSpans(ids);
}

/** Each text "@name" becomes the integer of that name. */
function withIntegers(value: unknown): string {
  return JSON.stringify(value).replace(/"@(\w+)"/g, (_, name) => integers[name as keyof typeof integers]);
}

async function fillSpans(ids: { rollout_id: string; attempt_id: string }): Promise<void> {
  const context = { trace_id: "t", span_id: "s", is_remote: false, trace_state: {} };
  const span = {
    ...sampleSpan(ids),
    attributes: { n: "@attribute", list: [1, "@list"] },
    events: [{ name: "e", attributes: { n: "@event" }, timestamp: null }],
    links: [{ context, attributes: { n: "@link" } }],
    resource: { attributes: { n: "@spanResource" }, schema_url: "" },
    received: "@extraMember",
  };
  await send("/v1/agl/spans", withIntegers(span));
  const inBatch = sampleSpan({ ...ids, attributes: { n: "@batch" } });
  await send("/v1/agl/spans/batch", withIntegers({ spans: [inBatch] }));
  await fillTelemetry([
    ["agentlightning.rollout_id", ids.rollout_id],
    ["agentlightning.attempt_id", ids.attempt_id],
  ]);
}

async function fillTelemetry(resource: [string, string][]): Promise<void> {
  const n = (name: keyof typeof integers): [string, bigint] => ["n", BigInt(integers[name])];
  const protobufSpan = {
    spanId: new Uint8Array(8).fill(1),
    attributes: [n("otlp"), ["list", [1n, BigInt(integers.otlpList)]]] satisfies [string, OtlpValue][],
    events: [{ name: "e", time: 1_766_538_002_123_456_789n, attributes: [n("otlpEvent")] }],
    links: [
      { traceId: new Uint8Array(16).fill(2), spanId: new Uint8Array(8).fill(3), attributes: [n("otlpLink")] },
    ],
  };
  const request = otlpRequest([...resource, n("otlpResource")], [protobufSpan]);
  await send("/v1/traces", request, "application/x-protobuf");
  const jsonSpan = {
    traceId: "0a".repeat(16),
    spanId: "0b".repeat(8),
    name: "json",
    startTimeUnixNano: "1766538002123456789",
    endTimeUnixNano: "1766538003123456789",
    attributes: [
      { key: "number", value: { intValue: "@otlpJson" } },
      { key: "text", value: { intValue: integers.otlpJsonText } },
    ],
  };
  const attributes = resource.map(([key, stringValue]) => ({ key, value: { stringValue } }));
  const json = { resource: { attributes }, scopeSpans: [{ spans: [jsonSpan] }] };
  await send("/v1/traces", withIntegers({ resourceSpans: [json] }));
}

function expectAll(text: string, expected: string[]): void {
  expect(expected.filter((digits) => !new RegExp(`[:,[ ]${digits}[\\],}]`).test(text))).toEqual([]);
}

const ofRollout = [input, metadata, rolloutUpdate];

// T-31, T-44, D-4
describe("integers beyond 2^53 leave as they came, to the last digit", () => {
  test.each([
    ["GET", "/rollouts/ID", [...ofRollout, attempt]],
    ["GET", "/rollouts", [...ofRollout, attempt]],
    ["POST", "/rollouts/search", [...ofRollout, attempt]],
    ["GET", "/rollouts/ID/attempts", [attempt]],
    ["GET", "/rollouts/ID/attempts/latest", [attempt]],
    ["GET", "/spans?rollout_id=ID", Object.values(ofSpans)],
    ["GET", "/spans?rollout_id=ID&attempt_id=latest&sort_by=name", Object.values(ofSpans)],
    ["GET", "/resources/latest", [ofResources]],
    ["GET", "/resources", [ofResources]],
    ["GET", "/workers/w", [ofWorker]],
    ["GET", "/workers", [ofWorker]],
  ])("%s %s", async (method, path, expected) => {
    const body = method === "POST" ? "{}" : undefined;
    const answer = await fetch(`${server.url}/v1/agl${path.replace("ID", rolloutId)}`, { method, body });
    expectAll(await answer.text(), expected);
  });

  test("a dequeue and a wait", async () => {
    const enqueue = `{"rollouts":[{"input":${input},"metadata":{"n":${metadata}}}]}`;
    const post = (path: string, body: string) =>
      fetch(`${server.url}/v1/agl${path}`, { method: "POST", body }).then((answer) => answer.text());
    expectAll(await post("/queues/rollouts/enqueue", enqueue), [input, metadata]);
    const taken = await post("/queues/rollouts/dequeue", "{}");
    expectAll(taken, [input, metadata]);
    const [{ rollout_id }] = JSON.parse(taken);
    await post(`/rollouts/${rollout_id}`, '{"status":"succeeded"}');
    expectAll(await post("/waits/rollouts", `{"rollout_ids":["${rollout_id}"]}`), [input, metadata]);
  });

  test.each([
    ["rollouts", [...ofRollout, attempt]],
    ["attempts", [attempt]],
    ["spans", Object.values(ofSpans)],
    ["resources", [ofResources]],
    ["workers", [ofWorker]],
    ["all", Object.values(integers)],
  ])("agl export %s, of the file and of the served store", async (kind, expected) => {
    for (const source of [
      ["--db", db],
      ["--store", server.url],
    ]) {
      const { code, out, err } = await runAgl(["export", kind, ...source], folder);
      expect({ code, err }).toEqual({ code: 0, err: "" });
      expectAll(out, expected);
    }
  });

  test("agl show --json", async () => {
    const { out } = await runAgl(["show", rolloutId, "--json", "--db", db], folder);
    expectAll(out, [...ofRollout, attempt]);
  });
});
