"""OpenTelemetry's own Python exporter against a served store: `otlp_exporter.py URL ROLLOUT ATTEMPT`. Sends a trace
with each compression, then one of an unknown rollout, which must fail without being repeated."""

import sys

import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, Status, StatusCode

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


class CountingSession(requests.Session):
    posts = 0

    def post(self, *args, **kwargs):
        self.posts += 1
        return super().post(*args, **kwargs)


def record_spans(rollout_id: str, attempt_id: str, name: str) -> tuple[ReadableSpan, ...]:
    resource = {"agentlightning.rollout_id": rollout_id, "agentlightning.attempt_id": attempt_id, "service.name": "a"}
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource(resource, schema_url="https://schema"))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("interop")
    outer = tracer.start_span(f"{name} outer", start_time=START)
    attributes = {"text": "größe", "big": 2**53 + 1, "float": 1.0, "flag": True, "ids": [151644, 8948], "none": []}
    links = [Link(outer.get_span_context(), {"why": "cause"})]
    parent = trace.set_span_in_context(outer)
    inner = tracer.start_span(f"{name} inner", parent, attributes=attributes, links=links, start_time=START + 1)
    inner.add_event("step", {"number": 1}, timestamp=START + SECOND // 2)
    inner.set_status(Status(StatusCode.ERROR, "broken"))
    inner.end(START + SECOND)
    outer.end(START + 2 * SECOND)
    return memory.get_finished_spans()


def main() -> None:
    url, rollout_id, attempt_id = sys.argv[1:4]
    endpoint = f"{url}/v1/traces"
    for compression in (Compression.NoCompression, Compression.Gzip, Compression.Deflate):
        exporter = OTLPSpanExporter(endpoint, compression=compression)
        result = exporter.export(record_spans(rollout_id, attempt_id, compression.value))
        assert result is SpanExportResult.SUCCESS, (compression, result)
    # Spans of no attempt are dropped, not an error.
    assert OTLPSpanExporter(endpoint).export(record_spans("", "", "outside")) is SpanExportResult.SUCCESS
    session = CountingSession()
    result = OTLPSpanExporter(endpoint, session=session).export(record_spans("ro-none", attempt_id, "refused"))
    assert (result, session.posts) == (SpanExportResult.FAILURE, 1), (result, session.posts)


main()
