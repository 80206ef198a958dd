import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import type { Span } from "../../../src/protocol/types.ts";
import { stringifyJson } from "../../../src/protocol/json.ts";
import { readOtlpJson } from "../../../src/server/otlp/otlp-json.ts";
import { readOtlpProtobuf } from "../../../src/server/otlp/otlp-protobuf.ts";
import { MessageBudget, PayloadError } from "../../../src/server/otlp/payload-error.ts";
import { jsonBytes, otlpJsonRequest } from "../../helpers/otlp-json-writer.ts";
import { otlpRequests } from "../../helpers/otlp-requests.ts";
import { otlpRequest, type OtlpValue, type WrittenSpan } from "../../helpers/protobuf-writer.ts";

// O-1, on purpose otherwise: the store also takes OTLP in its JSON mapping.

const id = (number: number) => new Uint8Array(8).fill(number);

/** A request with one span. */
function withSpan(members: object) {
  return { resourceSpans: [{ scopeSpans: [{ spans: [members] }] }] };
}

const withValue = (value: unknown) => withSpan({ attributes: [{ key: "k", value }] });

function readSpan(members: object) {
  return readOtlpJson(jsonBytes(withSpan(members)))[0]!;
}

const stored = (value: unknown) =>
  JSON.stringify(readOtlpJson(jsonBytes(withValue(value)))[0]!.attributes["k"]);

test("a span of a JSON request is stored and answered in JSON", async () => {
  const { ids, sendJson, spans, rollout_id, attempt_id } = await otlpRequests();
  const answer = await sendJson(otlpJsonRequest(ids, [{ spanId: id(0xab) }], "https://schema"), {
    "content-type": "application/json; charset=utf-8",
  });
  expect([answer.status, answer.headers.get("content-type"), await answer.text()]).toEqual([
    200,
    "application/json",
    "{}",
  ]);
  expect((await spans()).items).toMatchObject([
    {
      rollout_id,
      attempt_id,
      sequence_id: 1,
      trace_id: "0a".repeat(16),
      span_id: "ab".repeat(8),
      parent_id: null,
      start_time: 1700000000.1234567,
      resource: { schema_url: "https://schema" },
    },
  ]);
});

test("what is refused is counted in JSON, its number as text", async () => {
  const { ids, sendJson } = await otlpRequests();
  const stranger = { spanId: id(9), attributes: [["agentlightning.rollout_id", "ro-none"]] } as WrittenSpan;
  const some = await sendJson(otlpJsonRequest(ids, [{ spanId: id(1) }, stranger]));
  const errorMessage = "1 spans refused: Rollout ro-none not found";
  expect([some.status, await some.json()]).toEqual([
    200,
    { partialSuccess: { rejectedSpans: "1", errorMessage } },
  ]);
  const none = await sendJson(otlpJsonRequest(ids, [stranger]));
  expect([none.status, await none.json()]).toEqual([400, { message: errorMessage }]);
});

test("a packed one is unpacked, and so is its refusal packed", async () => {
  const { ids, send, spans } = await otlpRequests();
  const headers = {
    "content-type": "application/json",
    "content-encoding": "gzip",
    "accept-encoding": "gzip",
  };
  const answer = await send(gzipSync(jsonBytes(otlpJsonRequest(ids, [{ spanId: id(1) }]))), headers);
  expect(Buffer.from(Bun.gunzipSync(await answer.arrayBuffer())).toString()).toBe("{}");
  expect((await spans()).items).toHaveLength(1);
  const refusal = await send(gzipSync("[]"), headers);
  expect(refusal.status).toBe(400);
  expect(JSON.parse(Buffer.from(Bun.gunzipSync(await refusal.arrayBuffer())).toString())).toEqual({
    message: "the body is an array: send an object",
  });
});

test("a body over the limit is a 413 in JSON", async () => {
  const { send } = await otlpRequests({ maxBodyBytes: 1_000 });
  const headers = { "content-type": "application/json", "content-encoding": "gzip" };
  const answer = await send(gzipSync(" ".repeat(100_000)), headers);
  expect([answer.status, await answer.json()]).toEqual([
    413,
    { message: "The request body is larger than 1000 bytes" },
  ]);
});

test("an unset field may be absent or null, and members of later versions are ignored", () => {
  const bare = readSpan({});
  expect(bare).toMatchObject({ trace_id: "0".repeat(32), parent_id: null, name: "", start_time: null });
  const unset = { traceId: null, parentSpanId: "", name: null, startTimeUnixNano: 0, attributes: null };
  expect(readSpan({ ...unset, events: [], status: null, later: { a: [1] } })).toEqual(bare);
  for (const empty of ["", "{}", '{"resourceSpans":null}', '{"resourceSpans":[{"resource":{}}]}']) {
    expect(readOtlpJson(new TextEncoder().encode(empty))).toEqual([]);
  }
});

describe("values", () => {
  test.each([
    [{ intValue: "9223372036854775807" }, "9223372036854775807"],
    [{ intValue: "-9223372036854775808" }, "-9223372036854775808"],
    [{ intValue: 12 }, "12"],
    [{ intValue: "1e3" }, "1000"],
    [{ doubleValue: 2 }, "2.0"],
    [{ doubleValue: "2.5" }, "2.5"],
    [{ doubleValue: "NaN" }, '"NaN"'],
    [{ doubleValue: "-Infinity" }, '"-Infinity"'],
    [{ boolValue: false }, "false"],
    [{ stringValue: "" }, '""'],
    [{ bytesValue: "Af8=" }, '"01ff"'],
    [{ bytesValue: "-_8" }, '"fbff"'],
    [{ arrayValue: {} }, "[]"],
    [{ arrayValue: { values: [{ intValue: "1" }, { doubleValue: 2.5 }] } }, "[1.0,2.5]"],
    [{ kvlistValue: { values: [{ key: "a", value: { intValue: "1" } }] } }, '"{\\"a\\":1}"'],
    [{}, '"null"'],
  ])("%j is stored as %s", (value, text) => {
    expect(stored(value)).toBe(text);
  });

  test("a number that JavaScript cannot hold is read digit by digit", () => {
    const text = JSON.stringify(withValue({ intValue: 0 })).replace(":0", ":9007199254740993");
    const [span] = readOtlpJson(new TextEncoder().encode(text));
    expect(JSON.stringify(span!.attributes)).toBe('{"k":9007199254740993}');
  });

  test("times come as text or as numbers", () => {
    const asText = readSpan({ startTimeUnixNano: "1700000000500000000", endTimeUnixNano: 1.7e18 });
    expect([asText.start_time, asText.end_time]).toEqual([1700000000.5, 1700000000]);
  });
});

describe("what is wrong is named, with its place", () => {
  const span = "resourceSpans[0].scopeSpans[0].spans[0]";
  const value = `${span}.attributes[0].value`;
  test.each([
    ['{"resourceSpans":[{]}', "the body is no JSON: "],
    ["[1]", "the body is an array: send an object"],
    ['"x"', 'the body is "x": send an object'],
    [{ resourceSpans: {} }, "resourceSpans is an object: send an array"],
    [{ resourceSpans: [7] }, "resourceSpans[0] is 7: send an object"],
    [withSpan({ traceId: "xyz" }), `${span}.traceId is "xyz": send pairs of hexadecimal digits`],
    [withSpan({ spanId: "abc" }), `${span}.spanId is "abc": send pairs`],
    [withSpan({ spanId: 7 }), `${span}.spanId is 7: send a text`],
    [withSpan({ parentSpanId: "/w==" }), `${span}.parentSpanId is "/w=="`],
    [withSpan({ startTimeUnixNano: "-1" }), "send a whole number from 0 to 18446744073709551615"],
    [withSpan({ startTimeUnixNano: "18446744073709551616" }), "startTimeUnixNano"],
    [withSpan({ endTimeUnixNano: 1.5 }), `${span}.endTimeUnixNano is 1.5`],
    [
      withSpan({ status: { code: "STATUS_CODE_OK" } }),
      `${span}.status.code is "STATUS_CODE_OK": send its number`,
    ],
    [withSpan({ events: [{}, { name: [] }] }), `${span}.events[1].name is an array: send a text`],
    [withValue({ intValue: "1.5" }), `${value}.intValue is "1.5": send a whole number`],
    [withValue({ intValue: "9223372036854775808" }), `${value}.intValue is "9223372036854775808"`],
    [withValue({ intValue: true }), `${value}.intValue is true`],
    [withValue({ doubleValue: "two" }), `${value}.doubleValue is "two": send a number, or "NaN"`],
    [
      '{"resourceSpans":[{"resource":{"attributes":[{"value":{"doubleValue":NaN}}]}}]}',
      "doubleValue is null: send",
    ],
    [withValue({ boolValue: "true" }), `${value}.boolValue is "true": send true or false`],
    [withValue({ bytesValue: "!" }), `${value}.bytesValue is "!": send bytes in base64`],
    [withValue({ stringValue: "a", intValue: 1 }), `${value} has stringValue and intValue: send one of them`],
    [
      withValue({ stringValue: "x".repeat(500), intValue: { a: 1 } }),
      `${value} has stringValue and intValue`,
    ],
    [withSpan({ name: { a: "x".repeat(500) } }), `${span}.name is an object: send a text`],
    [withSpan({ traceId: "x".repeat(500) }), `${span}.traceId is "${"x".repeat(59)}…: send`],
  ])("%j", async (body, message) => {
    const answer = await (await otlpRequests()).sendJson(body);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([400, "application/json"]);
    expect(((await answer.json()) as { message: string }).message).toContain(message);
  });

  test("values nested without end", () => {
    let value: object = { stringValue: "x" };
    for (let depth = 0; depth < 40; depth++) value = { arrayValue: { values: [value] } };
    expect(() => stored(value)).toThrow("nested more than 32 deep");
  });

  test.each(["[", '{"resourceSpans":['])("%s a hundred thousand times", async (piece) => {
    const answer = await (await otlpRequests()).sendJson(piece.repeat(100_000));
    expect(answer.status).toBe(400);
  });

  test("very many empty messages are refused before they fill the memory", () => {
    const scopes = new TextEncoder().encode(`{"resourceSpans":[{"scopeSpans":[${"{},".repeat(1_000)}{}]}]}`);
    expect(() => readOtlpJson(scopes, new MessageBudget(1_000))).toThrow("too many messages");
    expect(readOtlpJson(scopes)).toEqual([]);
  });
});

const anyText = fc.string({ unit: "binary", maxLength: 12 }).map((text) => text.toWellFormed());
const key = fc.oneof(fc.constantFrom("k", "1", "__proto__", ""), anyText);
const integer = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const { value: anyValue } = fc.letrec<{ value: OtlpValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    anyText,
    fc.boolean(),
    integer,
    fc.double(),
    fc.double({ noNaN: true }).map(Math.trunc),
    fc.uint8Array({ maxLength: 5 }),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.array(fc.tuple(key, tie("value")), { maxLength: 3 }).map((entries) => new Map(entries)),
  ),
}));
const attributes = fc.array(fc.tuple(key, anyValue), { maxLength: 4 });
const nanoseconds = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const traceId = fc.uint8Array({ maxLength: 16 });
const spanId = fc.uint8Array({ maxLength: 8 });
const anySpan = (number: number): fc.Arbitrary<WrittenSpan> =>
  fc.record({
    traceId,
    spanId: fc.constant(id(number)),
    parentId: spanId,
    name: anyText,
    start: nanoseconds,
    end: nanoseconds,
    attributes: fc.tuple(attributes, fc.option(anyValue)).map(([entries, sequence]) => {
      const own: [string, OtlpValue][] =
        sequence === null ? [] : [["agentlightning.span_sequence_id", sequence]];
      return [...entries, ...own];
    }),
    events: fc.array(fc.record({ name: anyText, time: nanoseconds, attributes }), { maxLength: 2 }),
    links: fc.array(fc.record({ traceId, spanId, attributes }), { maxLength: 2 }),
    status: fc.record({ code: fc.integer({ min: 0, max: 5 }), message: anyText }),
  });

const request = fc.tuple(attributes, fc.tuple(anySpan(1), anySpan(2)), anyText);

test("the same spans sent as protobuf and as JSON are read identically", () => {
  fc.assert(
    fc.property(request, (parts) => {
      const [one, other] = [
        readOtlpProtobuf(otlpRequest(...parts)),
        readOtlpJson(jsonBytes(otlpJsonRequest(...parts))),
      ];
      expect(other.map(stringifyJson)).toEqual(one.map(stringifyJson));
    }),
  );
});

test("the same spans sent as protobuf and as JSON are stored identically", async () => {
  const property = fc.asyncProperty(request, async ([resource, spans, schemaUrl]) => {
    const asProtobuf = await otlpRequests();
    const asJson = await otlpRequests();
    const answers = [
      await asProtobuf.send(otlpRequest([...resource, ...asProtobuf.ids], spans, schemaUrl)),
      await asJson.sendJson(otlpJsonRequest([...resource, ...asJson.ids], spans, schemaUrl)),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const [one, other] = [await asProtobuf.spans(), await asJson.spans()];
    expect(one.items).toHaveLength(2);
    const neutral = (text: string, ids: { rollout_id: string; attempt_id: string }) =>
      text.replaceAll(ids.rollout_id, "ro").replaceAll(ids.attempt_id, "at");
    expect(neutral(other.text, asJson)).toBe(neutral(one.text, asProtobuf));
    for (const { store } of [asProtobuf, asJson]) await store.close();
  });
  await fc.assert(property, { numRuns: 15 });
});

test("arbitrary bytes are answered with a 200 or a 400 in both encodings, packed or not, and the store goes on", async () => {
  const { ids, send, spans } = await otlpRequests();
  const whole = [
    otlpRequest(ids, [{ spanId: id(1), attributes: [["k", [1n, "x"]]] }]),
    jsonBytes(otlpJsonRequest(ids, [{ spanId: id(1), attributes: [["k", [1n, "x"]]] }])),
  ];
  const changed = fc
    .tuple(fc.constantFrom(...whole), fc.nat(), fc.nat(255), fc.boolean())
    .map(([bytes, at, byte, cut]) => {
      const copy = Uint8Array.from(bytes);
      copy[at % copy.length] = byte;
      return cut ? copy.subarray(0, at % copy.length) : copy;
    });
  const property = fc.asyncProperty(
    fc.oneof(fc.uint8Array({ maxLength: 300 }), changed, changed.map(gzipSync)),
    fc.constantFrom("application/x-protobuf", "application/json"),
    fc.constantFrom("", "gzip", "deflate", "zstd"),
    async (bytes, type, encoding) => {
      const answer = await send(bytes, { "content-type": type, "content-encoding": encoding });
      expect([200, 400]).toContain(answer.status);
      expect(answer.headers.get("content-type")).toBe(type);
    },
  );
  await fc.assert(property, { numRuns: 500 });
  expect((await send(otlpRequest(ids, [{ spanId: id(77) }]))).status).toBe(200);
  expect((await spans()).items.some(({ span_id }: Span) => span_id === "4d".repeat(8))).toBe(true);
});

test("a JSON value of any shape is read or refused with what is wrong", () => {
  const piece = fc.constantFrom(
    "resourceSpans",
    "scopeSpans",
    "spans",
    "attributes",
    "value",
    "key",
    "intValue",
    "arrayValue",
    "values",
    "resource",
    "status",
    "traceId",
  );
  const { node } = fc.letrec<{ node: unknown }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 7, withCrossShrink: true },
      fc.constantFrom(null, true, 0, -1.5, "", "ab", "12", 1e300),
      fc.array(tie("node"), { maxLength: 3 }),
      fc.dictionary(piece, tie("node"), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(node, (value) => {
      try {
        readOtlpJson(jsonBytes(withSpan({ attributes: value, status: value })));
        readOtlpJson(jsonBytes(value));
      } catch (error) {
        expect(error).toBeInstanceOf(PayloadError);
      }
    }),
    { numRuns: 1_000 },
  );
});
