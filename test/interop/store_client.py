"""Agent-lightning's own client against a served store: `store_client.py URL`. Fails on the first difference."""

import asyncio
import inspect
import sys
import time
from typing import ClassVar

import opentelemetry.trace
from agentlightning import LightningStoreClient
from agentlightning.store.base import LightningStore
from agentlightning.types import (
    LLM,
    EnqueueRolloutRequest,
    OtelResource,
    PromptTemplate,
    ProxyLLM,
    RolloutConfig,
    Span,
    SpanContext,
    TraceStatus,
)
from opentelemetry.sdk.trace import TracerProvider


class CountedClient(LightningStoreClient):
    """Knows which of the store's methods were called."""

    called: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str):
        if not name.startswith("_"):
            CountedClient.called.add(name)
        return super().__getattribute__(name)


def uncalled_methods() -> list[str]:
    public = {name for name, _ in inspect.getmembers(LightningStore) if not name.startswith("_")}
    return sorted(public - CountedClient.called)


def make_span(rollout_id: str, attempt_id: str, sequence_id: int, number: int) -> Span:
    trace_id, span_id = "ab" * 16, f"{number:016x}"
    return Span(
        rollout_id=rollout_id,
        attempt_id=attempt_id,
        sequence_id=sequence_id,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=None,
        name=f"step-{number}",
        status=TraceStatus(status_code="OK", description=None),
        attributes={"text": "größe", "float": 1.0, "list": [1, 2], "flag": True},
        events=[],
        links=[],
        start_time=time.time(),
        end_time=time.time() + 0.5,
        context=SpanContext(trace_id=trace_id, span_id=span_id, is_remote=False, trace_state={}),
        parent=None,
        resource=OtelResource(attributes={"service.name": "interop"}, schema_url=""),
    )


async def check_resources(store: LightningStoreClient) -> str:
    proxy = ProxyLLM(endpoint="http://127.0.0.1:9/v1", model="m", sampling_parameters={"temperature": 0.5})
    named = {
        "main_llm": proxy,
        "judge": LLM(endpoint="http://127.0.0.1:9/v1", model="j", api_key="k"),
        "prompt": PromptTemplate(template="Dear {who}", engine="f-string"),
    }
    added = await store.add_resources(named)
    assert added.version == 1, added
    latest = await store.get_latest_resources()
    assert latest is not None and latest.resources == named, latest
    updated = await store.update_resources(added.resources_id, {"main_llm": proxy})
    assert updated.version == 2 and list(updated.resources) == ["main_llm"], updated
    read = await store.get_resources_by_id(added.resources_id)
    assert read == updated, (read, updated)
    assert (await store.get_resources_by_id("rs-none")) is None
    page = await store.query_resources(resources_id_contains=added.resources_id[:6])
    assert [item.resources_id for item in page] == [added.resources_id], page
    return added.resources_id


async def check_queue(store: LightningStoreClient, resources_id: str) -> None:
    config = RolloutConfig(max_attempts=2, retry_condition=["failed"], unresponsive_seconds=30)
    first = await store.enqueue_rollout(
        {"question": "12*7", "weight": 1.0}, mode="train", resources_id=resources_id, config=config, metadata={"k": 1}
    )
    many = await store.enqueue_many_rollouts(
        [EnqueueRolloutRequest(input=[1, None, "ü"], mode="val"), EnqueueRolloutRequest(input="text")]
    )
    assert [item.status for item in [first, *many]] == ["queuing"] * 3
    assert first.config == config and first.input == {"question": "12*7", "weight": 1.0}, first

    claimed = await store.dequeue_rollout(worker_id="python-0")
    assert claimed is not None and claimed.rollout_id == first.rollout_id, claimed
    assert (claimed.attempt.sequence_id, claimed.attempt.worker_id) == (1, "python-0"), claimed
    rest = await store.dequeue_many_rollouts(limit=5)
    assert [item.rollout_id for item in rest] == [item.rollout_id for item in many], rest
    assert await store.dequeue_rollout() is None

    attempt_id = claimed.attempt.attempt_id
    numbers = [await store.get_next_span_sequence_id(first.rollout_id, attempt_id) for _ in range(2)]
    assert numbers == [1, 2], numbers
    span = make_span(first.rollout_id, attempt_id, 1, 1)
    assert await store.add_span(span) == span
    assert await store.add_span(span) is None, "a duplicate is not stored again"
    await store.add_many_spans([make_span(first.rollout_id, attempt_id, 2, number) for number in (2, 3)])
    pairs = [(first.rollout_id, attempt_id), (many[0].rollout_id, rest[0].attempt.attempt_id)]
    assert list(await store.get_many_span_sequence_ids([*pairs, pairs[0]])) == [3, 1, 4]
    latest = await store.query_spans(first.rollout_id, "latest")
    assert [item.name for item in latest] == ["step-1", "step-2", "step-3"], latest
    assert latest.items[0] == span, latest.items[0]
    found = await store.query_spans(first.rollout_id, name_contains="-3", limit=1)
    assert (found.total, found.items[0].span_id) == (1, f"{3:016x}"), found
    running = await store.get_rollout_by_id(first.rollout_id)
    assert running is not None and running.status == "running", running

    failed = await store.update_attempt(first.rollout_id, attempt_id, status="failed", metadata={"why": "test"})
    assert failed.status == "failed" and failed.metadata == {"why": "test"}, failed
    again = await store.dequeue_rollout(worker_id="python-1")
    assert again is not None and again.attempt.sequence_id == 2, again
    await store.update_attempt(again.rollout_id, "latest", status="succeeded")
    attempts = await store.query_attempts(first.rollout_id)
    assert [item.status for item in attempts] == ["failed", "succeeded"], attempts
    assert (await store.get_latest_attempt(first.rollout_id)) == attempts.items[1]
    assert len(await store.query_spans(first.rollout_id, "latest")) == 0
    assert len(await store.query_spans(first.rollout_id)) == 3

    done = await store.wait_for_rollouts(rollout_ids=[first.rollout_id, many[0].rollout_id], timeout=0.05)
    assert [item.rollout_id for item in done] == [first.rollout_id], done
    changed = await store.update_rollout(many[0].rollout_id, status="cancelled", metadata={"a": [1]})
    assert (changed.status, changed.metadata) == ("cancelled", {"a": [1]}), changed
    page = await store.query_rollouts(status_in=["succeeded", "cancelled"], sort_by="start_time", sort_order="desc")
    assert [item.rollout_id for item in page] == [many[0].rollout_id, first.rollout_id], page


async def check_telemetry(store: LightningStoreClient) -> None:
    assert store.otlp_traces_endpoint() == f"{sys.argv[1]}/v1/traces"
    started = await store.start_rollout("telemetry")
    attempt_id = started.attempt.attempt_id
    tracer = TracerProvider().get_tracer("interop")
    recorded = tracer.start_span("recorded", attributes={"n": 1, "f": 1.0, "l": ["a"]})
    child = tracer.start_span("child", opentelemetry.trace.set_span_in_context(recorded))
    for span in (child, recorded):
        span.end()
        stored = await store.add_otel_span(started.rollout_id, attempt_id, span)
        assert stored is not None and stored.name == span.name, stored
    spans = await store.query_spans(started.rollout_id, attempt_id, sort_by="sequence_id", sort_order="desc")
    assert [(span.name, span.sequence_id) for span in spans] == [("recorded", 2), ("child", 1)], spans
    assert spans.items[1].parent_id == spans.items[0].span_id, spans
    assert spans.items[0].attributes == {"n": 1, "f": 1.0, "l": ["a"]}, spans
    assert [span.name for span in await store.query_spans(started.rollout_id, parent_id=spans.items[0].span_id)] == [
        "child"
    ]
    await store.update_attempt(started.rollout_id, attempt_id, status="succeeded")


async def check_workers(store: LightningStoreClient) -> None:
    await store.update_worker("python-0", {"cpu": 0.5})
    worker = await store.get_worker_by_id("python-0")
    assert worker is not None and worker.heartbeat_stats == {"cpu": 0.5}, worker
    page = await store.query_workers(status_in=["idle", "busy", "unknown"], worker_id_contains="python-")
    assert {"python-0", "python-1"} <= {item.worker_id for item in page}, page
    started = await store.start_rollout({"direct": True}, worker_id="python-2")
    assert started.status == "preparing" and started.attempt.worker_id == "python-2", started
    another = await store.start_attempt(started.rollout_id)
    assert another.attempt.sequence_id == 2, another
    statistics = await store.statistics()
    assert statistics.get("total_rollouts") == 5, statistics
    try:
        await store.update_attempt(started.rollout_id, "at-none", status="failed")
    except Exception:
        return
    raise AssertionError("an unknown attempt was updated")


async def main() -> None:
    store = CountedClient(sys.argv[1])
    assert store.capabilities.get("otlp_traces") is True
    try:
        resources_id = await check_resources(store)
        await check_queue(store, resources_id)
        await check_telemetry(store)
        await check_workers(store)
    finally:
        await store.close()
    assert uncalled_methods() == [], uncalled_methods()
    print("the client and the store agree")


asyncio.run(main())
