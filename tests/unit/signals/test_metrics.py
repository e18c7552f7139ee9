"""Metrics: labels that stay bounded, and exemplars that lead to a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from extproc.detect import Finding, Kind
from extproc.health import Ledger, Response
from extproc.signals import Metrics
from extproc.signals.labels import OTHER, RELEASES, UNITS, Cap
from extproc.signals.metrics import exemplar
from extproc.units import Registry, Unit

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
FINDING = Finding("repetition", "period", 64, 16)


def response(
    unit: str = "a", release: str = "r", kind: Kind = Kind.CORRUPT, traceparent: str = ""
) -> Response:
    found = (FINDING,) if kind is Kind.CORRUPT else ()
    return Response(unit, release, "short", "h", kind, found, "id", 0, traceparent=traceparent)


def samples(metrics: Metrics, name: str) -> list[dict[str, str]]:
    return [
        sample.labels
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"semantic_extproc_{name}"
    ]


def openmetrics(metrics: Metrics) -> str:
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    return encode(metrics.registry).decode()


@given(st.lists(st.sampled_from("abcdefgh")), st.integers(0, 5))
def test_the_first_values_of_a_label_keep_their_names(values: list[str], most: int) -> None:
    cap = Cap(most)
    first = list(dict.fromkeys(values))[:most]
    assert [cap(value) for value in values] == [
        value if value in first else OTHER for value in values
    ]


def test_units_and_releases_without_end_make_no_series_without_end() -> None:
    metrics, ledger = Metrics(), Ledger()
    metrics.watch(ledger, Registry())
    for number in range(RELEASES + UNITS):
        each = response(f"unit-{number}", f"release-{number}")
        metrics.response(each)
        metrics.marked.labels(each.unit).inc()
        ledger.record(each)
    assert len({labels["unit"] for labels in samples(metrics, "responses_total")}) == UNITS + 1
    releases = {labels["release"] for labels in samples(metrics, "responses_total")}
    assert len(releases) == RELEASES + 1
    assert len(samples(metrics, "marked_total")) == UNITS + 1
    states = samples(metrics, "unit_state")
    assert len(states) == 3 * (UNITS + 1)
    assert len({tuple(labels.items()) for labels in states}) == len(states)


def test_a_unit_that_is_met_has_counters_of_all_verdicts_from_the_start() -> None:
    metrics = Metrics()
    metrics.response(response(kind=Kind.CLEAN))
    assert {labels["verdict"] for labels in samples(metrics, "responses_total")} == set(Kind)


def test_a_corrupt_response_leads_to_its_trace() -> None:
    metrics = Metrics()
    metrics.response(response(traceparent=TRACEPARENT))
    metrics.response(response(kind=Kind.CLEAN, traceparent=TRACEPARENT))
    found = {
        sample.labels["verdict"]: sample.exemplar
        for family in text_string_to_metric_families(openmetrics(metrics))  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.name == "semantic_extproc_responses_total"
    }
    assert found["corrupt"] is not None
    assert found["corrupt"].labels == {"trace_id": TRACE}
    assert found["clean"] is None


@pytest.mark.parametrize(
    "header",
    [
        "",
        "rubbish",
        TRACE,
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        TRACEPARENT + "\n",
        TRACEPARENT + "0",
    ],
)
def test_a_header_that_is_no_traceparent_makes_no_exemplar(header: str) -> None:
    assert exemplar(header) is None


def test_a_later_version_of_traceparent_is_read() -> None:
    assert exemplar(f"01-{TRACE}-00f067aa0ba902b7-01-what-comes") == {"trace_id": TRACE}


@given(st.text())
def test_any_header_leaves_metrics_readable(header: str) -> None:
    metrics = Metrics()
    metrics.response(response(traceparent=header))
    assert openmetrics(metrics)


def test_metrics_tell_how_a_unit_is_covered_and_how_it_is_out() -> None:
    units = [
        Unit("a", release="r", fallback=("b",)),
        Unit("b", release="r", verified=True),
        Unit("c", release="r", fallback=("d",)),
        Unit("d", release="r"),
    ]
    metrics, ledger, registry = Metrics(), Ledger(units), Registry(units)
    metrics.watch(ledger, registry)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"semantic_extproc_{name}", labels)

    assert value("fallback_ready", unit="a") == 1
    assert value("fallback_ready", unit="c") == 0, "d is not verified"
    assert value("fallback_ready", unit="b") is None, "b has no fallback, on purpose"
    assert [value("unit_verified", unit=name) for name in "abcd"] == [0, 1, 0, 0]
    ledger.hold_out("a", "test", 1.0)
    ledger.hold_out("c", "test", 2.0)
    assert value("quarantine_mode", unit="a", mode="hard") == 1
    assert value("quarantine_mode", unit="a", mode="soft") == 0
    assert value("quarantine_mode", unit="c", mode="soft") == 1
    assert value("quarantine_mode", unit="b", mode="hard") == 0
    ledger.hold_out("b", "test", 3.0)
    assert value("fallback_ready", unit="a") == 0
    assert value("quarantine_mode", unit="a", mode="soft") == 1
