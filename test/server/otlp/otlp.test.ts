import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import type { Span } from "../../../src/protocol/types.ts";
import { storeReceivedSpans } from "../../../src/server/otlp/otlp-intake.ts";
import { readOtlpProtobuf } from "../../../src/server/otlp/otlp-protobuf.ts";
import { MessageBudget } from "../../../src/server/otlp/payload-error.ts";
import { ProtobufError } from "../../../src/server/otlp/protobuf-reader.ts";
import { createStoreApp } from "../../../src/server/store-app.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { openStoreReader } from "../../../src/store/store-reader.ts";
import { otlpRequests } from "../../helpers/otlp-requests.ts";
import {
  keyValue,
  otlpRequest,
  type OtlpValue,
  type WrittenSpan,
  writeProtobuf,
} from "../../helpers/protobuf-writer.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";
import { createTestClock } from "../../helpers/test-clock.ts";

async function bytesOf(answer: Response): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await answer.arrayBuffer());
}

/** A `google.rpc.Status`. */
function statusMessage(message: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(writeProtobuf([{ number: 2, bytes: message }]));
}

/** An `ExportTraceServiceResponse`. */
function partialSuccess(rejected: number, message: string): Uint8Array<ArrayBuffer> {
  const fields = [
    { number: 1, varint: rejected },
    { number: 2, bytes: message },
  ];
  return new Uint8Array(writeProtobuf([{ number: 1, bytes: fields }]));
}

const id = (number: number) => new Uint8Array(8).fill(number);

// W-1, W-26, O-3, O-4 and the table of section 7.3
test("a span is stored with the ids of its resource, member for member as the protocol says", async () => {
  const { ids, send, spans, rollout_id, attempt_id } = await otlpRequests();
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

// T-43, T-44
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
  const [span] = readOtlpProtobuf(request);
  expect(span).toMatchObject({
    trace_id: "07".padStart(32, "0"),
    span_id: "0".repeat(16),
    parent_id: "09".padStart(16, "0"),
    parent: null,
    start_time: null,
    end_time: 1_700_000_000,
    status: { status_code: "ERROR", description: "bad" },
    events: [{ name: "exception", timestamp: 1700000000.5, attributes: { "exception.type": "E" } }],
    links: [{ context: { trace_id: "02".repeat(16), span_id: "03".repeat(8) }, attributes: null }],
    resource: { schema_url: "https://schema" },
  });
});

// T-31
test("values that attributes cannot hold become text, big integers keep their digits", async () => {
  const { ids, send, spans } = await otlpRequests();
  const attributes: [string, OtlpValue][] = [
    ["big", 9_007_199_254_740_993n],
    ["negative", -5n],
    ["float", 2e20],
    ["zero", -0],
    ["nan", Number.NaN],
    ["unset", null],
    ["map", new Map<string, OtlpValue>([["a", [1n, "x"]]])],
    ["mixed", [1n, "x"]],
    ["floats", [1n, 2.5]],
    ["none", []],
  ];
  await send(otlpRequest(ids, [{ spanId: id(1), attributes }]));
  const { text } = await spans();
  expect(text).toContain(
    `"attributes":{"big":9007199254740993,"negative":-5,"float":200000000000000000000.0,"zero":-0.0,"nan":"NaN","unset":"null",` +
      `"map":"{\\"a\\":[1,\\"x\\"]}","mixed":"[1,\\"x\\"]","floats":[1.0,2.5],"none":[]}`,
  );
});

describe("which attempt, and which number", () => {
  // O-9, O-11
  test("a span's own ids win over its resource's, and numbers may be text", async () => {
    const { ids, send, spans } = await otlpRequests();
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

  // O-11, O-12, O-13
  test("a number on the resource is shared, and where there is none or no good one, fresh ones come in order", async () => {
    const { ids, send, spans } = await otlpRequests();
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

  // N-3
  test("a duplicate without a number of its own uses one up, one with a number raises the counter", async () => {
    const { send, ids, store, rollout_id, attempt_id } = await otlpRequests();
    const next = () => store.nextSequenceId(rollout_id, attempt_id);
    const numbered: [string, OtlpValue][] = [["agentlightning.span_sequence_id", 50n]];
    await send(otlpRequest(ids, [{ spanId: id(1) }]));
    await send(otlpRequest(ids, [{ spanId: id(1) }]));
    expect(await next()).toBe(3);
    await send(otlpRequest(ids, [{ spanId: id(1), attributes: numbered }]));
    expect(await next()).toBe(51);
    expect((await store.querySpans({ rollout_id })).items.map(({ sequence_id }) => sequence_id)).toEqual([1]);
  });

  // O-10; O-4 on purpose otherwise: what is dropped is counted in the answer
  test("spans of no attempt are dropped and counted, and the request succeeds", async () => {
    const { send, store } = await otlpRequests();
    const outside: [string, OtlpValue][] = [
      ["agentlightning.rollout_id", ""],
      ["agentlightning.attempt_id", ""],
    ];
    for (const resource of [outside, outside.slice(0, 1), []]) {
      const answer = await send(otlpRequest(resource, [{ spanId: id(1) }, { spanId: id(2) }]));
      expect(answer.status).toBe(200);
      const message = "2 spans name no agentlightning.rollout_id and agentlightning.attempt_id";
      expect(await bytesOf(answer)).toEqual(partialSuccess(2, message));
    }
    expect((await store.statistics()).total_spans).toBe(0);
  });

  const stranger = (number: number): WrittenSpan => ({
    spanId: id(number),
    attributes: [["agentlightning.rollout_id", "ro-none"]],
  });

  // O-14
  test("spans of an unknown rollout are refused with a count; the others are stored, duplicates are fine", async () => {
    const { ids, send, spans } = await otlpRequests();
    const answer = await send(
      otlpRequest(ids, [{ spanId: id(1) }, stranger(8), stranger(9), { spanId: id(2) }]),
    );
    expect(answer.status).toBe(200);
    const message = "2 spans refused: Rollout ro-none not found";
    expect(await bytesOf(answer)).toEqual(partialSuccess(2, message));
    const again = await send(otlpRequest(ids, [{ spanId: id(1) }]));
    expect([again.status, (await again.arrayBuffer()).byteLength]).toEqual([200, 0]);
    const duplicateAndStranger = await send(otlpRequest(ids, [{ spanId: id(1) }, stranger(8)]));
    expect(duplicateAndStranger.status).toBe(200);
    expect((await spans()).items).toHaveLength(2);
  });

  // O-7
  test("when the store takes none of them, it is a 400, which exporters do not repeat", async () => {
    const { ids, send } = await otlpRequests();
    const answer = await send(
      otlpRequest(ids, [stranger(8), { spanId: id(9), attributes: [["agentlightning.rollout_id", ""]] }]),
    );
    expect(answer.status).toBe(400);
    const message =
      "1 spans refused: Rollout ro-none not found; 1 spans name no agentlightning.rollout_id and agentlightning.attempt_id";
    expect(await bytesOf(answer)).toEqual(statusMessage(message));
  });

  // O-15
  test("more spans in one request than the store takes questions at a time get their numbers in order", async () => {
    const asked: number[] = [];
    let waiting = 0;
    let numbers: number[] = [];
    const store = {
      async nextSequenceId() {
        waiting += 1;
        asked.push(waiting);
        const number = asked.length;
        await new Promise(setImmediate);
        waiting -= 1;
        return number;
      },
      async addSpans(spans: Span[]) {
        numbers = spans.map(({ sequence_id }) => sequence_id);
        return { stored: spans.length, duplicates: 0, rejected: [] };
      },
    };
    const ids: [string, OtlpValue][] = [
      ["agentlightning.rollout_id", "ro-1"],
      ["agentlightning.attempt_id", "at-1"],
    ];
    const spans = Array.from({ length: 5_000 }, () => ({ spanId: id(1) }));
    const outcome = await storeReceivedSpans(store, readOtlpProtobuf(otlpRequest(ids, spans)));
    expect(outcome.taken).toBe(5_000);
    expect(numbers).toEqual(Array.from({ length: 5_000 }, (_, index) => index + 1));
    expect(Math.max(...asked)).toBeLessThanOrEqual(1_000);
  });

  test("an overdue attempt is not ended by a span of another", async () => {
    const path = join(temporaryFolder(), "store.db");
    const clock = createTestClock();
    const store = openStore({ path, now: clock.now, scanDebounceSeconds: 0 });
    const app = createStoreApp(store);
    const overdue = await store.startRollout({ input: 1, config: { timeout_seconds: 5 } });
    const other = await store.startRollout({ input: 2 });
    clock.advance(100);
    const body = otlpRequest(
      [
        ["agentlightning.rollout_id", other.rollout_id],
        ["agentlightning.attempt_id", other.attempt.attempt_id],
      ],
      [{ spanId: id(1) }],
    ) as Uint8Array<ArrayBuffer>;
    const headers = { "content-type": "application/x-protobuf" };
    expect((await app.request("/v1/traces", { method: "POST", headers, body })).status).toBe(200);
    const reader = openStoreReader(path);
    expect((await reader.getRollout(overdue.rollout_id))?.status).toBe("preparing");
    expect((await reader.getRollout(other.rollout_id))?.status).toBe("running");
    await reader.close();
    await store.close();
  });
});

describe("bodies", () => {
  // O-2, O-5, T-42
  test("gzip is unpacked, and packed where the client takes it", async () => {
    const { ids, send, spans } = await otlpRequests();
    const body = Bun.gzipSync(otlpRequest(ids, [{ spanId: id(1) }]) as Uint8Array<ArrayBuffer>);
    const answer = await send(body, { "content-encoding": "GZIP", "accept-encoding": "gzip;q=1.0, deflate" });
    expect([answer.status, answer.headers.get("content-encoding")]).toEqual([200, "gzip"]);
    expect(Bun.gunzipSync(await answer.arrayBuffer())).toHaveLength(0);
    expect((await spans()).items).toHaveLength(1);
  });

  test.each([
    ["with zlib's header", deflateSync],
    ["bare", deflateRawSync],
  ])("deflate is unpacked, %s", async (_, deflate) => {
    const { ids, send, spans } = await otlpRequests();
    const answer = await send(deflate(otlpRequest(ids, [{ spanId: id(1) }])), {
      "content-encoding": "deflate",
    });
    expect([answer.status, answer.headers.get("content-encoding")]).toEqual([200, null]);
    expect((await spans()).items).toHaveLength(1);
  });

  // O-3
  test.each(["", "gzip", "deflate", "identity"])(
    "an empty one (%s) is an empty request",
    async (encoding) => {
      const answer = await (await otlpRequests()).send(new Uint8Array(), { "content-encoding": encoding });
      expect([answer.status, (await answer.arrayBuffer()).byteLength]).toEqual([200, 0]);
    },
  );

  // O-1, O-2, O-6; an unknown content encoding is not ignored: its bytes would be read as something else
  test.each([
    [
      "another type",
      { "content-type": "text/plain; charset=utf-8" },
      "content type text/plain: send application/x-protobuf or application/json",
    ],
    [
      "a type in capitals",
      { "content-type": "Application/X-Protobuf" },
      "content type Application/X-Protobuf: send ",
    ],
    ["no type", { "content-type": "" }, "content type missing: send "],
    ["no protobuf", {}, "not the expected protobuf message: "],
    ["no gzip", { "content-encoding": "gzip" }, "the body is no gzip: "],
    ["no deflate", { "content-encoding": "deflate" }, "the body is no deflate: "],
    [
      "an encoding that is not known",
      { "content-encoding": "br" },
      "content encoding br: send gzip, deflate or identity",
    ],
  ])("%s is a 400 with a Status", async (_, headers, message) => {
    const answer = await (await otlpRequests()).send(Buffer.from("hello"), headers as Record<string, string>);
    expect(answer.status).toBe(400);
    expect(answer.headers.get("content-type")).toBe("application/x-protobuf");
    const bytes = new Uint8Array(await answer.arrayBuffer());
    expect(bytes[0]).toBe(0x12);
    expect(bytes[1]).toBe(bytes.length - 2);
    expect(new TextDecoder().decode(bytes.subarray(2))).toStartWith(message);
  });

  // O-5, O-6
  test("a refusal is packed, too, and is of a length that takes two bytes", async () => {
    const { send } = await otlpRequests();
    const type = `text/${"x".repeat(200)}`;
    const answer = await send(new Uint8Array(), { "content-type": type, "accept-encoding": "gzip" });
    const message = `content type ${type}: send application/x-protobuf or application/json`;
    expect(answer.status).toBe(400);
    expect(Bun.gunzipSync(await bytesOf(answer))).toEqual(statusMessage(message));
  });

  test.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
  ])("one that unpacks (%s) to more than the limit is a 413 with a Status", async (encoding, pack) => {
    const { send } = await otlpRequests({ maxBodyBytes: 10_000 });
    const bomb = pack(new Uint8Array(9_000_000));
    expect(bomb.length).toBeLessThan(10_000);
    for (const [body, headers] of [
      [bomb, { "content-encoding": encoding }],
      [new Uint8Array(20_000), {}],
    ] as const) {
      const answer = await send(body, headers);
      expect(answer.status).toBe(413);
      const message = "The request body is larger than 10000 bytes";
      expect(await bytesOf(answer)).toEqual(statusMessage(message));
    }
  });

  test("one of very many empty messages is refused before they fill the memory", () => {
    const events = new Uint8Array(2_000);
    for (let at = 0; at < events.length; at += 2) events[at] = 11 * 8 + 2;
    const request = writeProtobuf([
      { number: 1, bytes: [{ number: 2, bytes: [{ number: 2, bytes: events }] }] },
    ]);
    expect(() => readOtlpProtobuf(request, new MessageBudget(1_000))).toThrow("too many messages");
    expect(readOtlpProtobuf(request)).toHaveLength(1);
  });

  test("a request may hold four million messages", () => {
    const budget = new MessageBudget();
    for (let taken = 0; taken < 4 * 1024 * 1024; taken += 1) budget.take();
    expect(() => budget.take()).toThrow("too many messages");
  });

  test("values nested without end are refused", () => {
    let value: OtlpValue = "x";
    for (let depth = 0; depth < 40; depth++) value = [value];
    const request = otlpRequest([], [{ spanId: id(1), attributes: [["deep", value]] }]);
    expect(() => readOtlpProtobuf(request)).toThrow("nested");
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
      const [span] = readOtlpProtobuf(otlpRequest([], [{ spanId: id(1), name, attributes }]));
      expect(span?.name).toBe(name);
      const read = JSON.parse(JSON.stringify(span?.attributes));
      const written = Object.fromEntries(
        attributes.map(([key, value]) => [key, typeof value === "bigint" ? Number(value) : value]),
      );
      expect(read).toEqual(written);
    }),
    { examples: [[[["zero", -0]], ""]] },
  );
});

// O-3
test("other bytes, and cut ones, are refused and nothing else", () => {
  const whole = otlpRequest([["a", "b"]], [{ spanId: id(1), attributes: [["k", [1n, 2n]]] }]);
  const readOrRefuse = (bytes: Uint8Array) => {
    try {
      readOtlpProtobuf(bytes);
    } catch (error) {
      expect(error).toBeInstanceOf(ProtobufError);
    }
  };
  for (let end = 1; end < whole.length; end++) {
    expect(() => readOtlpProtobuf(whole.subarray(0, end))).toThrow(ProtobufError);
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), readOrRefuse));
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, byte) => {
      const changed = Uint8Array.from(whole);
      changed[at] = byte;
      readOrRefuse(changed);
    }),
  );
  expect(readOtlpProtobuf(writeProtobuf([{ number: 7, varint: 1 }]))).toEqual([]);
});
