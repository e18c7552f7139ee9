"""``gate verify-fallback``: the gates' word on a fallback, as the sidecar keeps it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from extproc.admin import make_app
from extproc.health import Severity, severity
from extproc.processor import Services
from extproc.units import Unit
from tests.unit.cli.sidecar import served
from tests.unit.gates.fake import Fake, Gates
from tests.unit.services import services_of

UNITS = (
    Unit("a", release="r7", fallback=("b", "c")),
    Unit("b", release="r1"),
    Unit("c", release="r2"),
    Unit("lonely", release="r1"),
)


@contextmanager
def sidecar() -> Iterator[tuple[str, Services]]:
    book = services_of(*UNITS)
    with served(lambda: make_app(book, lambda: True)) as url:
        yield url, book


def verify(gates: Gates, admin: str, *arguments: str) -> tuple[int, str, str]:
    unit, *rest = arguments
    files = gates.files()[:4]
    return gates.run(
        unit, *files, "--admin", admin, "--gates", "1-3", *rest, command="verify-fallback"
    )


def test_a_fallback_that_passes_is_verified_for_its_release_until_it_expires(
    gates: Gates,
) -> None:
    with Fake().running() as url, sidecar() as (admin, book):
        gates.serve(url)
        book.announce(book.ledger.hold_out("a", "test", time.time()))
        assert severity("a", book.ledger, book.registry) is Severity.SOFT
        code, out, err = verify(gates, admin, "a", "--days", "2")
        assert code == 0, err
        assert "b is verified for release r1 for 2 days" in out
        said = book.ledger.verification("b")
        assert said is not None
        assert said.release == "r1"
        assert said.until - time.time() == pytest.approx(2 * 86400, abs=120)
        assert "gates 1-3 passed" in said.cause
        assert book.ledger.verified("b")
        assert severity("a", book.ledger, book.registry) is Severity.HARD
        book.announce(book.ledger.tick(said.until + 1))
        assert not book.ledger.verified("b"), "a verification lapses"
        assert severity("a", book.ledger, book.registry) is Severity.SOFT


def test_a_fallback_that_fails_is_not_verified(gates: Gates) -> None:
    with Fake(answer="!" * 16).running() as url, sidecar() as (admin, book):
        gates.serve(url)
        code, _, err = verify(gates, admin, "a")
        assert code == 1
        assert "b is not verified" in err
        assert book.ledger.verification("b") is None


def test_the_fallbacks_own_server_is_asked_and_nothing_is_rolled_back(gates: Gates) -> None:
    left = gates.folder / "rolled-back"
    gates.config["rollback"] = f'command = ["touch", "{left}"]\n'
    gates.config["matrix"] = 'runtime_version = "r7"\ndtype_activation = "bf16"\n'
    ours, theirs = Fake(answer="!" * 16), Fake()
    with ours.running() as url, theirs.running() as other, sidecar() as (admin, book):
        gates.serve(url)
        gates.serve(url, "service.baseline")
        assert verify(gates, admin, "a")[0] == 1
        gates.serve(other, "service.fallback")
        code, _, err = verify(gates, admin, "a")
        assert code == 0, err
        assert book.ledger.verified("b")
    assert theirs.chats
    assert not left.exists()


def test_another_fallback_can_be_chosen(gates: Gates) -> None:
    with Fake().running() as url, sidecar() as (admin, book):
        gates.serve(url)
        assert verify(gates, admin, "a", "--fallback", "c")[0] == 0
        assert book.ledger.verified("c")
        code, _, err = verify(gates, admin, "a", "--fallback", "nobody")
        assert code == 2
        assert "b, c" in err


def test_a_unit_without_fallback_or_a_sidecar_that_is_not_there_are_named(gates: Gates) -> None:
    gates.serve("http://127.0.0.1:1")
    with sidecar() as (admin, _):
        code, _, err = verify(gates, admin, "lonely")
        assert code == 2
        assert "has no fallback" in err
        assert verify(gates, admin, "stranger")[0] == 1
    code, _, err = verify(gates, "http://127.0.0.1:9", "a")
    assert code == 2
    assert "no sidecar answers" in err
