import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { type Attributes, diag, DiagLogLevel, ROOT_CONTEXT, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  type SpanExporter,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { serveStore, type StoreServer } from "../../../src/server/serve.ts";
import type { SqliteStore } from "../../../src/store/sqlite-store.ts";
import { memoryStore } from "../../helpers/memory-store.ts";

/** The official JavaScript exporters of OpenTelemetry against a served store. */
const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  diag.disable();
});

interface Served {
  store: SqliteStore;
  server: StoreServer;
  rollout_id: string;
  ids: Attributes;
}

async function served(): Promise<Served> {
  const store = memoryStore();
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
  stops.push(() => server.stop());
  const { rollout_id, attempt } = await store.startRollout({ input: 1 });
  const ids = {
    "agentlightning.rollout_id": rollout_id,
    "agentlightning.attempt_id": attempt.attempt_id,
  };
  return { store, server, rollout_id, ids };
}

const exporters = [
  ["protobuf", ProtobufExporter, "none"],
  ["protobuf with gzip", ProtobufExporter, "gzip"],
  ["JSON", JsonExporter, "none"],
  ["JSON with gzip", JsonExporter, "gzip"],
] as const;

type Exporter = (typeof exporters)[number][1];

function makeExporter(Exporter: Exporter, compression: string, server: StoreServer): SpanExporter {
  const exporter = new Exporter({
    url: `${server.url}/v1/traces`,
    compression: compression as NonNullable<ConstructorParameters<Exporter>[0]>["compression"],
    timeoutMillis: 5_000,
  });
  stops.push(() => exporter.shutdown());
  return exporter;
}

/** Two spans, one in the other, as the SDK finishes them. */
function recordSpans(resource: Attributes, attributes: Attributes = {}): ReadableSpan[] {
  const memory = new InMemorySpanExporter();
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": "agent", ...resource }),
    spanProcessors: [new SimpleSpanProcessor({ exporter: memory })],
  });
  const tracer = provider.getTracer("agent", "1.0");
  const outer = tracer.startSpan("outer", { startTime: [1_700_000_000, 123_456_700], attributes });
  const inner = tracer.startSpan(
    "inner",
    {
      startTime: [1_700_000_001, 0],
      attributes: { text: "größe", whole: 7, half: 0.5, flag: true, ids: [151_644, 8948], names: ["a", "b"] },
      links: [{ context: outer.spanContext(), attributes: { why: "cause" } }],
    },
    trace.setSpan(ROOT_CONTEXT, outer),
  );
  inner.addEvent("step", { number: 1 }, [1_700_000_001, 500_000_000]);
  inner.setStatus({ code: SpanStatusCode.ERROR, message: "broken" });
  inner.end([1_700_000_002, 0]);
  outer.setStatus({ code: SpanStatusCode.OK });
  outer.end([1_700_000_003, 0]);
  return memory.getFinishedSpans();
}

function exportSpans(
  exporter: SpanExporter,
  spans: ReadableSpan[],
): Promise<{ code: number; error?: Error }> {
  return new Promise((resolve) => exporter.export(spans, resolve));
}

/** What the SDK warns of, which is where it tells of a partial success. */
function collectWarnings(): string[] {
  const warnings: string[] = [];
  const ignore = () => {};
  const warn = (...parts: unknown[]) => warnings.push(parts.join(" "));
  const logger = { verbose: ignore, debug: ignore, info: ignore, warn, error: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  return warnings;
}

describe.each(exporters)("%s", (_, Exporter, compression) => {
  test("spans of an attempt are stored as the SDK recorded them", async () => {
    const { store, server, rollout_id, ids } = await served();
    const warnings = collectWarnings();
    const [inner, outer] = recordSpans(ids);
    expect(await exportSpans(makeExporter(Exporter, compression, server), [inner!, outer!])).toEqual({
      code: 0,
    });
    expect(warnings).toEqual([]);
    const { traceId, spanId } = inner!.spanContext();
    const parentId = outer!.spanContext().spanId;
    const context = { trace_id: traceId, is_remote: false, trace_state: {} };
    const { items } = await store.querySpans({ rollout_id });
    expect(items).toMatchObject([
      {
        sequence_id: 1,
        trace_id: traceId,
        span_id: spanId,
        parent_id: parentId,
        name: "inner",
        status: { status_code: "ERROR", description: "broken" },
        attributes: {
          text: "größe",
          whole: 7,
          half: 0.5,
          flag: true,
          ids: [151_644, 8948],
          names: ["a", "b"],
        },
        events: [{ name: "step", attributes: { number: 1 }, timestamp: 1_700_000_001.5 }],
        links: [{ context: { ...context, span_id: parentId }, attributes: { why: "cause" } }],
        start_time: 1_700_000_001,
        end_time: 1_700_000_002,
        context: { ...context, span_id: spanId },
        resource: { attributes: { "service.name": "agent", ...ids } },
      },
      {
        sequence_id: 2,
        span_id: parentId,
        parent_id: null,
        name: "outer",
        status: { status_code: "OK", description: null },
        start_time: 1_700_000_000.1234567,
      },
    ]);
  });

  test("spans that are not stored are told of as a partial success", async () => {
    const { store, server, rollout_id, ids } = await served();
    const warnings = collectWarnings();
    const spans = [...recordSpans(ids), ...recordSpans({})];
    expect(await exportSpans(makeExporter(Exporter, compression, server), spans)).toEqual({ code: 0 });
    expect((await store.querySpans({ rollout_id })).total).toBe(2);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("Partial Success");
    expect(warnings[0]).toMatch(/"rejectedSpans":"?2"?/);
    expect(warnings[0]).toContain("2 spans name no agentlightning.rollout_id");
  });

  test("a refused request fails at once", async () => {
    const { store, server, ids } = await served();
    const spans = recordSpans({ ...ids, "agentlightning.rollout_id": "ro-none" });
    const addSpans = spyOn(store, "addSpans");
    const result = await exportSpans(makeExporter(Exporter, compression, server), spans);
    expect(result).toMatchObject({ code: 1, error: { code: 400 } });
    expect(String((result.error as unknown as { data: string }).data)).toContain(
      "2 spans refused: Rollout ro-none not found",
    );
    expect(addSpans).toHaveBeenCalledTimes(1);
  });
});

test("a span's own attributes say whose it is and which number it has", async () => {
  const { store, server, rollout_id, ids } = await served();
  const exporter = makeExporter(JsonExporter, "none", server);
  const own = { ...ids, "agentlightning.span_sequence_id": 40 };
  const spans = recordSpans({ ...ids, "agentlightning.rollout_id": "ro-none" }, own);
  expect((await exportSpans(exporter, spans)).code).toBe(0);
  const { items } = await store.querySpans({ rollout_id });
  expect(items.map(({ name, sequence_id }) => [name, sequence_id])).toEqual([["outer", 40]]);
});
