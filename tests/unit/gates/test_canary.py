"""Gate 5: what is decided from which counts, and that it reads a running sidecar's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from extproc.admin import make_app
from extproc.detect import Kind
from extproc.gates.canary import Observed, Pairs, Sample, degeneration, success
from extproc.gates.outcome import Status
from extproc.gates.settings import ShadowCanary
from extproc.health import Response
from tests.unit.cli.sidecar import served
from tests.unit.gates.fake import Gates, checks
from tests.unit.services import services_of

SETTINGS = ShadowCanary()


def observed(
    ours: tuple[int, int, int], theirs: tuple[int, int, int], pairs: Pairs | None = None
) -> Observed:
    """Clean, suspect and corrupt of candidate and baseline."""
    return Observed(Sample("new", "r2", *ours), Sample("old", "r1", *theirs), pairs or Pairs())


@pytest.mark.parametrize(
    ("ours", "theirs", "status"),
    [
        ((5000, 0, 0), (5000, 0, 0), Status.PASSED),
        ((4900, 50, 50), (4950, 25, 25), Status.PASSED),  # a drop of 1 %, below 3 %
        ((900, 0, 100), (990, 0, 10), Status.FAILED),
        ((900, 100, 0), (990, 10, 0), Status.FAILED),  # suspects are no successes either
        ((9, 0, 1), (100, 0, 0), Status.UNDECIDED),  # a tenth, but of ten
        ((40, 0, 0), (40, 0, 0), Status.UNDECIDED),
        ((0, 0, 0), (400, 0, 0), Status.UNDECIDED),
        ((8, 0, 12), (400, 0, 0), Status.FAILED),  # few, and no doubt
    ],
)
def test_task_success_is_decided_by_the_drop_and_by_chance(
    ours: tuple[int, int, int], theirs: tuple[int, int, int], status: Status
) -> None:
    found = success(observed(ours, theirs), SETTINGS)
    assert found.status is status
    answered = ours[0] + ours[1] + ours[2]
    if status is Status.UNDECIDED and answered:
        needed = found.measured["needed"]
        assert isinstance(needed, int)
        assert f"{needed - answered} more of new r2" in found.reason


@pytest.mark.parametrize(
    ("pairs", "status"),
    [
        (Pairs(1000, 50, 2), Status.FAILED),
        (Pairs(1000, 50, 45), Status.PASSED),  # both fail as often: the prompts are hard
        (Pairs(1000, 0, 0), Status.PASSED),
        (Pairs(20, 1, 0), Status.UNDECIDED),
    ],
)
def test_mirrored_traffic_is_compared_request_by_request(pairs: Pairs, status: Status) -> None:
    ours = (pairs.total - pairs.only_candidate, 0, pairs.only_candidate)
    theirs = (20_000, 0, 0)  # the baseline answers much that is not mirrored
    found = success(observed(ours, theirs, pairs), SETTINGS)
    assert found.status is status
    assert found.measured["test"] == "mcnemar"


@pytest.mark.parametrize(
    ("ours", "theirs", "status"),
    [
        ((5000, 0, 0), (5000, 0, 0), Status.PASSED),
        ((4970, 0, 30), (4999, 0, 1), Status.FAILED),
        ((4970, 0, 30), (4970, 0, 30), Status.PASSED),  # not this release's doing
        ((4970, 0, 30), (5, 0, 0), Status.UNDECIDED),
        ((2000, 0, 0), (5000, 0, 0), Status.UNDECIDED),  # 2995 are needed to exclude 0.1 %
        ((2995, 0, 0), (0, 0, 0), Status.PASSED),
        ((3, 0, 3), (400, 0, 0), Status.FAILED),
    ],
)
def test_degeneration_is_decided_by_the_limit_the_baseline_and_chance(
    ours: tuple[int, int, int], theirs: tuple[int, int, int], status: Status
) -> None:
    assert degeneration(observed(ours, theirs), SETTINGS).status is status


def test_a_small_sample_says_how_many_are_missing() -> None:
    found = degeneration(observed((2000, 0, 0), (2000, 0, 0)), SETTINGS)
    assert "995 more of new" in found.reason


@contextmanager
def sidecar(records: list[Response]) -> Iterator[str]:
    """A real admin API over a book with these responses."""
    book = services_of()
    for response in records:
        book.record(response)
    with served(lambda: make_app(book, lambda: True)) as url:
        yield url


def answers(unit: str, release: str, count: int, kind: Kind, start: int = 0) -> list[Response]:
    return [
        Response(unit, release, "short", "h", kind, (), f"q{start + n}", 1000.0, attempt=1)
        for n in range(count)
    ]


def configured(gates: Gates, url: str, **more: str) -> dict[str, Any]:
    gates.serve("http://127.0.0.1:1")
    lines = [f'admin_url = "{url}"', *(f'{name} = "{value}"' for name, value in more.items())]
    gates.config["sidecar"] = "\n".join(lines) + "\n"
    return gates.report("--gates", "5")


def test_a_corrupt_canary_fails_by_the_sidecars_own_counts(gates: Gates) -> None:
    book = answers("new", "r2", 70, Kind.CLEAN) + answers("new", "r2", 30, Kind.CORRUPT, 5000)
    book += answers("old", "r1", 400, Kind.CLEAN, 10_000)
    with sidecar(book) as url:
        report = configured(gates, url, candidate_unit="new", baseline_unit="old")
    assert report["exit_code"] == 1
    assert report["rollback"]["conditions"] == ["gate_5_task_success_dropped"]
    found = checks(report)
    assert found["task_success"]["measured"]["test"] == "fisher"
    assert "gate_5_degeneration_rate_exceeded" in found["degeneration"]["conditions"]


def test_mirrored_requests_are_paired_by_their_id(gates: Gates) -> None:
    book = answers("old", "r1", 100, Kind.CLEAN)
    book += answers("new", "r2", 60, Kind.CLEAN) + answers("new", "r2", 40, Kind.CORRUPT, 60)
    with sidecar(book) as url:
        report = configured(gates, url, candidate_unit="new", baseline_unit="old")
    found = checks(report)["task_success"]
    assert found["status"] == "failed"
    assert found["measured"]["test"] == "mcnemar"
    assert found["measured"]["pairs"] == 100
    assert found["measured"]["only_candidate"] == 40


def test_a_canary_of_one_unit_is_held_against_the_release_before_it(gates: Gates) -> None:
    book = answers("u", "r1", 400, Kind.CLEAN) + answers("u", "r2", 60, Kind.CORRUPT, 1000)
    with sidecar(book) as url:
        report = configured(gates, url, candidate_unit="u", baseline_unit="u")
    measured = checks(report)["task_success"]["measured"]
    assert (measured["candidate"], measured["baseline"]) == (60, 400)
    assert report["exit_code"] == 1


def test_too_little_traffic_is_neither_passed_nor_failed(gates: Gates) -> None:
    book = answers("new", "r2", 5, Kind.CLEAN) + answers("old", "r1", 5, Kind.CLEAN, 100)
    with sidecar(book) as url:
        report = configured(gates, url, candidate_unit="new", baseline_unit="old")
    assert report["exit_code"] == 3
    assert report["result"] == "undecided"
    assert "the sample is too small" in checks(report)["degeneration"]["reason"]


def test_a_sidecar_that_is_not_there_or_does_not_know_the_unit_is_a_failure(gates: Gates) -> None:
    report = configured(gates, "http://127.0.0.1:9", candidate_unit="a", baseline_unit="b")
    assert report["exit_code"] == 1
    assert "no sidecar answers" in checks(report)["task_success"]["reason"]
    with sidecar([]) as url:
        report = configured(gates, url, candidate_unit="a", baseline_unit="b")
    assert "no unit has the id 'a'" in checks(report)["task_success"]["reason"]


def test_without_a_sidecar_nothing_is_measured(gates: Gates) -> None:
    gates.serve("http://127.0.0.1:1")
    gates.config["matrix"] = ""
    report = gates.report("--gates", "5")
    assert report["exit_code"] == 3
    assert "[sidecar]" in checks(report)["task_success"]["reason"]


def test_half_a_comparison_is_refused(gates: Gates) -> None:
    gates.serve("http://127.0.0.1:1")
    gates.config["sidecar"] = 'candidate_unit = "a"\n'
    code, _, err = gates.run("--gates", "5")
    assert code == 2
    assert "name both candidate_unit and baseline_unit" in err
