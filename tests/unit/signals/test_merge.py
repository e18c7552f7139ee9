"""Metrics of several processes read as those of one."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from extproc.signals import Metrics
from extproc.signals.merge import Merged, Part, rows


def told(metrics: Metrics) -> Part:
    """What a worker with these metrics would have told, over the link."""
    part = Part()
    part.take(json.loads(json.dumps(rows(metrics.registry))))
    return part


def shown(merged: Merged) -> str:
    return str(generate_latest(merged).decode())  # type: ignore[no-untyped-call]


def test_counters_and_histograms_add_up_and_labels_join() -> None:
    authority, one, other = Metrics(), Metrics(), Metrics()
    authority.errors.labels("tick").inc()
    for worker, seconds in ((one, 0.002), (other, 0.3)):
        worker.chunks.inc(10)
        worker.errors.labels("inspect").inc(2)
        worker.hold_seconds.observe(seconds)
        worker.open_streams.set(7)
    text = shown(Merged(authority.registry, {"a": told(one), "b": told(other)}))
    for line in (
        "semantic_extproc_body_chunks_total 20.0",
        'semantic_extproc_internal_errors_total{where="inspect"} 4.0',
        'semantic_extproc_internal_errors_total{where="tick"} 1.0',
        'semantic_extproc_hold_seconds_bucket{le="0.005"} 1.0',
        'semantic_extproc_hold_seconds_bucket{le="+Inf"} 2.0',
        "semantic_extproc_hold_seconds_sum 0.302",
        "semantic_extproc_open_streams 14.0",
    ):
        assert line in text.splitlines()
    names = [line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert list(text_string_to_metric_families(text.replace("# EOF\n", "")))


def test_gauges_that_are_no_sum_are_the_authority_s() -> None:
    authority, worker = Metrics(), Metrics()
    authority.keeping.store_saved(True)
    worker.keeping.store_saved(True)
    worker.processes.reloaded = 5.0
    text = shown(Merged(authority.registry, {"a": told(worker)}))
    assert "semantic_extproc_store_up 1.0" in text
    assert "semantic_extproc_config_last_reload_success_timestamp_seconds 0.0" in text


def test_what_a_dead_worker_counted_stands_and_its_gauges_go() -> None:
    worker = Metrics()
    worker.chunks.inc(3)
    worker.open_streams.set(2)
    gone, part = Part(), told(worker)
    part.forget_gauges()
    gone.absorb(part)
    gone.absorb(part)
    text = shown(Merged(Metrics().registry, {"gone": gone}))
    assert "semantic_extproc_body_chunks_total 6.0" in text
    assert "semantic_extproc_open_streams 0.0" in text


def test_the_latest_exemplar_is_shown() -> None:
    workers = [Metrics(), Metrics()]
    for number, worker in enumerate(workers):
        worker.chunks.inc(1, exemplar={"trace_id": f"t{number}"})
    parts = {str(number): told(worker) for number, worker in enumerate(workers)}
    text = shown(Merged(Metrics().registry, parts))
    assert 'semantic_extproc_body_chunks_total 2.0 # {trace_id="t1"}' in text


@pytest.mark.parametrize("nonsense", [[[1]], [["a", "b", 3, 4]], [["a", "b", [], "x"]], [7]])
def test_what_cannot_be_read_changes_nothing(nonsense: list[object]) -> None:
    metrics = Metrics()
    metrics.chunks.inc()
    part = told(metrics)
    with pytest.raises((ValueError, TypeError)):
        part.take(nonsense)  # type: ignore[arg-type]
    assert any(part.values.values())


def test_a_gauge_of_somebody_else_s_is_not_told() -> None:
    registry = CollectorRegistry()
    Gauge("x", "x", registry=registry).set(1)
    assert rows(registry) == []
