"""A response that was not judged is counted with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from bench.messages import headers_message
from extproc.health import Ledger
from extproc.health.sampling import Sampler
from extproc.processor import Services
from extproc.processor.asking import Asking
from extproc.processor.exchange import Exchange
from extproc.signals import Metrics
from extproc.units import Registry
from extproc.wire import Limits
from tests.e2e.upstream import HEALTHY_JSON

Change = Callable[[Any], None]


def services(**options: Any) -> Services:
    return Services(Registry(), Ledger(), Metrics(), **options)


def exchange(made: Services, change: Change = lambda _: None) -> Exchange:
    request = pb.ProcessingRequest.FromString(headers_message("application/json"))
    change(request)
    return Exchange(made, request, Asking(1 << 20))


def reasons(made: Services) -> dict[str, float]:
    return {
        sample.labels["reason"]: sample.value
        for family in made.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "semantic_extproc_unchecked_total"
    }


def other_path(request: Any) -> None:
    fields = request.attributes["envoy.filters.http.ext_proc"].fields
    fields["request.path"].string_value = "/metrics"
    for header in request.response_headers.headers.headers:
        if header.key == "content-type":
            header.raw_value = b"text/plain"


def encoded(request: Any) -> None:
    header = request.response_headers.headers.headers.add()
    header.key, header.raw_value = "content-encoding", b"compress"


def no_body(request: Any) -> None:
    request.response_headers.end_of_stream = True


@pytest.mark.parametrize(
    ("change", "reason"), [(other_path, "format"), (encoded, "encoding"), (no_body, "empty")]
)
def test_what_cannot_be_read_says_why(change: Change, reason: str) -> None:
    made = services()
    exchange(made, change).close()
    assert reasons(made) == {reason: 1}


def test_what_was_sampled_out_says_so() -> None:
    made = services(sampler=Sampler(0.0))
    exchange(made).close()
    assert reasons(made) == {"sampled": 1}


def test_what_was_cut_off_says_so() -> None:
    made = services()
    one = exchange(made)
    one.feed(HEALTHY_JSON[:40], False)
    one.close()
    assert reasons(made) == {"cut": 1}


def test_a_body_past_its_limit_says_so() -> None:
    made = services(limits=Limits(100, 100, 100))
    one = exchange(made)
    one.feed(HEALTHY_JSON, True)
    one.close()
    assert reasons(made) == {"unreadable": 1}


def test_what_was_judged_has_no_reason() -> None:
    made = services()
    one = exchange(made)
    one.feed(HEALTHY_JSON, True)
    one.close()
    assert reasons(made) == {}
