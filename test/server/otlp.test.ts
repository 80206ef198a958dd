import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createStoreApp } from "../../src/server/store-app.ts";
import { readOtlpRequest } from "../../src/server/otlp-request.ts";
import { ProtobufError } from "../../src/server/protobuf-reader.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import {
  keyValue,
  otlpRequest,
  type OtlpValue,
  type WrittenSpan,
  writeProtobuf,
} from "../helpers/protobuf-writer.ts";

const id = (number: number) => new Uint8Array(8).fill(number);

async function startAttempt(options: { maxBodyBytes?: number } = {}) {
  const store = memoryStore();
  const app = createStoreApp(store, options);
  const { rollout_id, attempt } = await store.startRollout({ input: 1 });
  const ids: [string, OtlpValue][] = [
    ["agentlightning.rollout_id", rollout_id],
    ["agentlightning.attempt_id", attempt.attempt_id],
  ];
  return {
    ids,
    rollout_id,
    attempt_id: attempt.attempt_id,
    store,
    app,
    send: async (body: Uint8Array, headers: Record<string, string> = {}) =>
      await app.request("/v1/traces", {
        method: "POST",
        headers: { "content-type": "application/x-protobuf", ...headers },
        body: body as Uint8Array<ArrayBuffer>,
      }),
    /** As the wire shows them. */
    spans: async () => {
      const url = `/v1/agl/spans?rollout_id=${rollout_id}`;
      return {
        text: await (await app.request(url)).text(),
        items: (await store.querySpans({ rollout_id })).items,
      };
    },
  };
}

test("a span is stored with the ids of its resource, member for member as the protocol says", async () => {
  const { ids, send, spans, rollout_id, attempt_id } = await startAttempt();
  const attributes: [string, OtlpValue][] = [
    ["i", 1n],
    ["f", 1],
    ["b", true],
    ["s", "x"],
    ["bytes", Uint8Array.of(1, 255)],
    ["l", [1n, 2n]],
  ];
  const answer = await send(otlpRequest(ids, [{ spanId: id(1), attributes }]));
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("application/x-protobuf");
  expect((await answer.arrayBuffer()).byteLength).toBe(0);
  const { items, text } = await spans();
  const trace_id = "0a".repeat(16);
  expect(items).toEqual([
    {
      rollout_id,
      attempt_id,
      sequence_id: 1,
      trace_id,
      span_id: "01".repeat(8),
      parent_id: null,
      name: "n0",
      status: { status_code: "UNSET", description: null },
      attributes: { i: 1, f: 1, b: true, s: "x", bytes: "01ff", l: [1, 2] },
      events: [],
      links: [],
      start_time: 1700000000.1234567,
      end_time: 1700000001.1234567,
      context: { trace_id, span_id: "01".repeat(8), is_remote: false, trace_state: {} },
      parent: null,
      resource: {
        attributes: { "agentlightning.rollout_id": rollout_id, "agentlightning.attempt_id": attempt_id },
        schema_url: "",
      },
    },
  ]);
  expect(text).toContain(`"attributes":{"i":1,"f":1.0,"b":true`);
});

test("events, links, status, parent, schema and short ids", () => {
  const request = otlpRequest(
    [],
    [
      {
        traceId: Uint8Array.of(7),
        spanId: new Uint8Array(),
        parentId: Uint8Array.of(9),
        start: 0n,
        end: 1_700_000_000n,
        more: [
          {
            number: 11,
            bytes: [
              { number: 1, fixed64: 1_700_000_000_500_000_000n },
              { number: 2, bytes: "exception" },
              { number: 3, bytes: keyValue("exception.type", "E") },
            ],
          },
          {
            number: 13,
            bytes: [
              { number: 1, bytes: new Uint8Array(16).fill(2) },
              { number: 2, bytes: id(3) },
            ],
          },
          {
            number: 15,
            bytes: [
              { number: 2, bytes: "bad" },
              { number: 3, varint: 2 },
            ],
          },
          { number: 99, bytes: "from a later version" },
        ],
      },
    ],
    "https://schema",
  );
  const [span] = readOtlpRequest(request);
  expect(span).toMatchObject({
    trace_id: "07".padStart(32, "0"),
    span_id: "0".repeat(16),
    parent_id: "09".padStart(16, "0"),
    start_time: null,
    end_time: 1_700_000_000,
    status: { status_code: "ERROR", description: "bad" },
    events: [{ name: "exception", timestamp: 1700000000.5, attributes: { "exception.type": "E" } }],
    links: [{ context: { trace_id: "02".repeat(16), span_id: "03".repeat(8) }, attributes: null }],
    resource: { schema_url: "https://schema" },
  });
});

test("values that attributes cannot hold become text, big integers keep their digits", async () => {
  const { ids, send, spans } = await startAttempt();
  const attributes: [string, OtlpValue][] = [
    ["big", 9_007_199_254_740_993n],
    ["negative", -5n],
    ["nan", Number.NaN],
    ["unset", null],
    ["map", new Map<string, OtlpValue>([["a", [1n, "x"]]])],
    ["mixed", [1n, "x"]],
    ["none", []],
  ];
  await send(otlpRequest(ids, [{ spanId: id(1), attributes }]));
  const { text } = await spans();
  expect(text).toContain(
    `"attributes":{"big":9007199254740993,"negative":-5,"nan":"NaN","unset":"null",` +
      `"map":"{\\"a\\":[1,\\"x\\"]}","mixed":"[1,\\"x\\"]","none":[]}`,
  );
});

describe("which attempt, and which number", () => {
  test("a span's own ids win over its resource's, and numbers may be text", async () => {
    const { ids, send, spans } = await startAttempt();
    const wrong: [string, OtlpValue][] = [...ids.slice(0, 1), ["agentlightning.attempt_id", "at-none"]];
    const given = (value: OtlpValue): [string, OtlpValue][] => [
      ids[1]!,
      ["agentlightning.span_sequence_id", value],
    ];
    const request = otlpRequest(wrong, [
      { spanId: id(1), attributes: given(" 1_0 ") },
      { spanId: id(2), attributes: given(0n) },
      { spanId: id(3), attributes: given(7n) },
    ]);
    expect((await send(request)).status).toBe(200);
    expect((await spans()).items.map(({ sequence_id }) => sequence_id)).toEqual([0, 7, 10]);
  });

  test("a number on the resource is shared, and where there is none or no good one, fresh ones come in order", async () => {
    const { ids, send, spans } = await startAttempt();
    const shared: [string, OtlpValue][] = [...ids, ["agentlightning.span_sequence_id", 4n]];
    await send(otlpRequest(shared, [{ spanId: id(1) }, { spanId: id(2) }]));
    const bad = [-1n, 1.5, true, "three", null] as OtlpValue[];
    const unnumbered: WrittenSpan[] = bad.map((value, index) => ({
      spanId: id(10 + index),
      attributes: [["agentlightning.span_sequence_id", value]],
    }));
    await send(otlpRequest(ids, [...unnumbered, { spanId: id(20) }]));
    const numbers = (await spans()).items.map(({ span_id, sequence_id }) => [
      span_id.slice(0, 2),
      sequence_id,
    ]);
    expect(numbers).toEqual([
      ["01", 4],
      ["02", 4],
      ["0a", 5],
      ["0b", 6],
      ["0c", 7],
      ["0d", 8],
      ["0e", 9],
      ["14", 10],
    ]);
  });

  test("spans of no attempt are dropped, and the request succeeds", async () => {
    const { send, store } = await startAttempt();
    const outside: [string, OtlpValue][] = [
      ["agentlightning.rollout_id", ""],
      ["agentlightning.attempt_id", ""],
    ];
    expect((await send(otlpRequest(outside, [{ spanId: id(1) }]))).status).toBe(200);
    expect((await send(otlpRequest([], [{ spanId: id(1) }]))).status).toBe(200);
    expect((await store.statistics()).total_spans).toBe(0);
  });

  test("an unknown rollout is a 400 that exporters do not repeat; its neighbours are stored, duplicates are fine", async () => {
    const { ids, send, spans } = await startAttempt();
    const stranger: WrittenSpan = { spanId: id(9), attributes: [["agentlightning.rollout_id", "ro-none"]] };
    const answer = await send(otlpRequest(ids, [{ spanId: id(1) }, stranger, { spanId: id(2) }]));
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain("1 spans refused: ");
    expect((await send(otlpRequest(ids, [{ spanId: id(1) }]))).status).toBe(200);
    expect((await spans()).items).toHaveLength(2);
  });
});

describe("bodies", () => {
  test("gzip is unpacked, and packed where the client takes it", async () => {
    const { ids, send, spans } = await startAttempt();
    const body = Bun.gzipSync(otlpRequest(ids, [{ spanId: id(1) }]) as Uint8Array<ArrayBuffer>);
    const answer = await send(body, { "content-encoding": "GZIP", "accept-encoding": "gzip;q=1.0, deflate" });
    expect([answer.status, answer.headers.get("content-encoding")]).toEqual([200, "gzip"]);
    expect(Bun.gunzipSync(await answer.arrayBuffer())).toHaveLength(0);
    expect((await spans()).items).toHaveLength(1);
  });

  test("an empty one is an empty request", async () => {
    expect((await (await startAttempt()).send(new Uint8Array())).status).toBe(200);
  });

  test.each([
    ["another type", "application/json", new Uint8Array(), {}, "send application/x-protobuf"],
    ["no protobuf", "application/x-protobuf", Buffer.from("hello"), {}, "ExportTraceServiceRequest"],
    ["no gzip", "application/x-protobuf", Buffer.from("x"), { "content-encoding": "gzip" }, "the body"],
  ])("%s is a 400 with a Status", async (_, type, body, headers, message) => {
    const answer = await (await startAttempt()).send(body, { "content-type": type, ...headers });
    expect(answer.status).toBe(400);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    expect(bytes[0]).toBe(0x12);
    expect(bytes[1]).toBe(bytes.length - 2);
    expect(new TextDecoder().decode(bytes)).toContain(message);
  });

  test("one that unpacks to more than the limit is a 413", async () => {
    const { send } = await startAttempt({ maxBodyBytes: 10_000 });
    const bomb = Bun.gzipSync(new Uint8Array(10_000_000));
    expect(bomb.length).toBeLessThan(10_000);
    expect((await send(bomb, { "content-encoding": "gzip" })).status).toBe(413);
    expect((await send(new Uint8Array(20_000))).status).toBe(413);
  });

  test("values nested without end are refused", () => {
    let value: OtlpValue = "x";
    for (let depth = 0; depth < 40; depth++) value = [value];
    const request = otlpRequest([], [{ spanId: id(1), attributes: [["deep", value]] }]);
    expect(() => readOtlpRequest(request)).toThrow("nested");
  });
});

const anyText = fc.string({ unit: "binary" }).map((text) => text.toWellFormed());
const scalar = fc.oneof(
  anyText,
  fc.boolean(),
  fc.bigInt({ min: -(2n ** 53n) + 1n, max: 2n ** 53n - 1n }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);

test("what an exporter writes is read back, whatever it is", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ minLength: 1 }), scalar)), anyText, (attributes, name) => {
      const [span] = readOtlpRequest(otlpRequest([], [{ spanId: id(1), name, attributes }]));
      expect(span?.name).toBe(name);
      const read = JSON.parse(JSON.stringify(span?.attributes));
      const written = Object.fromEntries(
        attributes.map(([key, value]) => [key, typeof value === "bigint" ? Number(value) : value]),
      );
      expect(read).toEqual(JSON.parse(JSON.stringify(written)));
    }),
  );
});

test("other bytes, and cut ones, are refused and nothing else", () => {
  const whole = otlpRequest([["a", "b"]], [{ spanId: id(1), attributes: [["k", [1n, 2n]]] }]);
  const readOrRefuse = (bytes: Uint8Array) => {
    try {
      readOtlpRequest(bytes);
    } catch (error) {
      expect(error).toBeInstanceOf(ProtobufError);
    }
  };
  for (let end = 1; end < whole.length; end++) {
    expect(() => readOtlpRequest(whole.subarray(0, end))).toThrow(ProtobufError);
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), readOrRefuse));
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, byte) => {
      const changed = Uint8Array.from(whole);
      changed[at] = byte;
      readOrRefuse(changed);
    }),
  );
  expect(readOtlpRequest(writeProtobuf([{ number: 7, varint: 1 }]))).toEqual([]);
});
