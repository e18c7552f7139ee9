from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from extproc.detect import Kind
from extproc.health import Response, State
from extproc.probes import Target
from extproc.probes.budget import Cost
from extproc.probes.kinds import NAMES, Outcome
from extproc.probes.matrix import Subject
from extproc.probes.prober import Prober
from extproc.probes.settings import ProberSettings
from extproc.processor import Services
from extproc.units import Unit
from tests.unit.probes.engine import Engine
from tests.unit.probes.prober import BANDS, QUICK, UNIT, running
from tests.unit.services import Heard, services_of
from tests.waiting import until


def quarantine(services: Services, unit: str = "u", context: str = "short") -> None:
    now = time.time()
    for at in range(8):
        response = Response(
            unit, "r1", context, f"h{at % 2}", Kind.CORRUPT, (), f"id-{at}", now + at
        )
        services.record(response)
    assert services.ledger.state(unit, context) is State.QUARANTINE


@asynccontextmanager
async def probing(
    engine: Engine, settings: ProberSettings = QUICK, unit: Unit = UNIT, **more: Any
) -> AsyncIterator[tuple[Prober, Services]]:
    made = services_of(unit)
    async with engine.serve() as server:
        kinds = more.pop("kinds", NAMES)
        subject = Subject(unit, Target(server.url, "m"), kinds)
        yield Prober(made, [subject], BANDS, settings, **more), made


async def outcomes(prober: Prober, **which: Any) -> dict[tuple[str, str], Outcome]:
    return {(r.cell.context, r.cell.kind): r.outcome async for r in prober.run_now("u", **which)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extproc.probes.prober.STEP", 0.01)


async def test_the_whole_matrix_is_probed_at_deployment() -> None:
    async with probing(Engine(), replace(QUICK, interval=3600)) as (prober, _), running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 2 * len(NAMES))
        found = {(r.cell.context, r.cell.kind): r for r in prober.results.of_unit("u")}
        for context in ("short", "long"):
            for kind in NAMES:
                wanted = Outcome.SKIPPED if kind == "embedding" else Outcome.PASSED
                if (context, kind) != ("long", "long"):  # 1000 tokens are not long enough for it
                    assert found[context, kind].outcome is wanted, found[context, kind]
        assert {result.release for result in found.values()} == {"r1"}


async def test_a_change_of_release_probes_all_of_it_again() -> None:
    settings = replace(QUICK, interval=3600)
    async with probing(Engine(), settings, kinds=("golden",)) as (prober, made), running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 2)
        clean = Response("u", "r2", "short", "h", Kind.CLEAN, (), "", time.time())
        made.record(clean)
        await until(lambda: {result.release for result in prober.results.of_unit("u")} == {"r2"})


async def test_an_engine_of_another_version_is_probed_anew() -> None:
    engine = Engine("1")
    async with probing(engine, kinds=("golden", "chat")) as (prober, _), running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 4)
        before = prober.identity("u")
        engine.version = "2"
        await until(lambda: prober.identity("u") != before)
        await until(
            lambda: {r.identity for r in prober.results.of_unit("u")} == {prober.identity("u")}
        )


async def test_samples_visit_every_cell() -> None:
    async with probing(Engine(), kinds=("golden", "chat", "json")) as (prober, _), running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 6)
        times = {result.cell: result.at for result in prober.results.of_unit("u")}
        await until(
            lambda: all(result.at > times[result.cell] for result in prober.results.of_unit("u"))
        )


async def test_a_failure_that_proves_itself_counts_as_a_corrupt_verdict() -> None:
    engine, sink = Engine(), Heard()
    engine.sick = True
    async with probing(engine, kinds=("chat",)) as (prober, made):
        made.sinks.append(sink)
        async with running(prober):
            await until(lambda: made.ledger.state("u", "short") is State.QUARANTINE)
        (record, *_) = sink.records
        assert record.unit == "u"
        assert record.verdict is Kind.CORRUPT
        assert record.findings
        assert "!!!" not in json.dumps([r.as_dict() for r in sink.records]).replace('\\"!\\" x', "")
        result = prober.results.of_unit("u")[0]
        assert result.charged
        assert result.proof
    counts = [track.counts.total() for _, _, track in made.ledger.tracks("u")]
    assert counts == [0] * len(counts), "a probe is no user's response"


async def test_a_golden_prompt_that_a_model_never_understood_is_no_evidence() -> None:
    engine = Engine()
    engine.golden = "I am glad to help you."
    async with probing(engine, kinds=("golden",)) as (prober, made), running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 2)
        assert {r.outcome for r in prober.results.of_unit("u")} == {Outcome.FAILED}
        assert not any(result.charged for result in prober.results.of_unit("u"))
        assert made.ledger.state("u", "short") is State.PASS


async def test_a_golden_prompt_that_was_understood_before_is() -> None:
    engine = Engine()
    async with probing(engine, kinds=("golden",)) as (prober, made), running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 2)
        engine.golden = "I am glad to help you."
        await until(lambda: made.ledger.state("u", "short") is State.QUARANTINE)


async def test_a_mended_unit_is_let_in_by_its_probes() -> None:
    engine = Engine()
    async with probing(engine, replace(QUICK, interval=3600)) as (prober, made):
        quarantine(made)
        async with running(prober):
            await until(lambda: made.ledger.state("u", "short") is State.OBSERVE)
        assert "probes" in made.ledger.cause("u", "short")


async def test_a_unit_that_is_still_sick_stays_out() -> None:
    engine = Engine()
    engine.sick = True
    async with probing(engine, replace(QUICK, interval=3600)) as (prober, made):
        quarantine(made)
        async with running(prober):
            await until(lambda: engine.generated > 20)
            assert made.ledger.state("u", "short") is State.QUARANTINE
            engine.sick = False
            await until(lambda: made.ledger.state("u", "short") is State.OBSERVE)


async def test_one_kind_that_fails_keeps_a_unit_out() -> None:
    engine = Engine()
    engine.golden = "no"
    async with probing(engine, replace(QUICK, interval=3600)) as (prober, made):
        quarantine(made)
        async with running(prober):
            await until(lambda: engine.generated > 10)
            assert made.ledger.state("u", "short") is State.QUARANTINE


@pytest.mark.parametrize("kinds", [(), ("golden", "chat")], ids=["all kinds", "some"])
async def test_all_probes_by_hand_let_a_unit_in_and_some_do_not(kinds: tuple[str, ...]) -> None:
    async with probing(Engine(), replace(QUICK, interval=3600)) as (prober, made):
        quarantine(made)
        prober.matrix.recovery.failed(("u", "short"), time.time() + 3600)
        async with running(prober):
            await until(lambda: not prober.refuses())
            await outcomes(prober, contexts=["short"], kinds=kinds)
        wanted = State.QUARANTINE if kinds else State.OBSERVE
        assert made.ledger.state("u", "short") is wanted


async def test_an_operators_hold_is_not_lifted() -> None:
    async with probing(Engine(), replace(QUICK, interval=3600)) as (prober, made):
        quarantine(made)
        made.announce(made.ledger.hold_out("u", "maintenance", time.time()))
        async with running(prober):
            await until(lambda: made.ledger.class_state("u", "short") is State.OBSERVE)
            assert made.ledger.unit_state("u") is State.QUARANTINE


async def test_a_server_that_is_away_is_no_evidence() -> None:
    made = services_of(UNIT)
    prober = Prober(made, [Subject(UNIT, Target("http://127.0.0.1:9", "m"))], BANDS, QUICK)
    async with running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 2 * len(NAMES))
        assert {r.outcome for r in prober.results.of_unit("u")} == {Outcome.ERROR}
        assert made.ledger.state("u", "short") is State.PASS
        assert prober.status() == "waiting: unit u: refused"


async def test_a_key_that_is_not_set_is_an_error_of_the_probes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    subject = Subject(UNIT, Target("http://127.0.0.1:9", "m", "NO_SUCH_KEY"))
    prober = Prober(services_of(UNIT), [subject], BANDS, QUICK)
    async with running(prober):
        await until(lambda: prober.status() == "waiting: unit u: misconfigured")


@pytest.mark.parametrize(
    "limit", [Cost(9, 10**9, 10**6), Cost(10**6, 9000, 10**6)], ids=["requests", "tokens"]
)
async def test_the_budget_is_never_exceeded(limit: Cost) -> None:
    engine = Engine()
    settings = replace(QUICK, interval=0.01, limit=limit, timeout=5)
    async with probing(engine, settings) as (prober, _), running(prober):
        await until(lambda: "budget" in prober.status())
        for _ in range(20):
            assert engine.generated <= limit.requests
            assert engine.tokens <= limit.tokens
            await asyncio.sleep(0.02)
        assert engine.generated > 5


async def test_probes_by_hand_are_within_the_budget_and_say_so() -> None:
    settings = replace(QUICK, limit=Cost(8, 10**9, 10**6))
    async with probing(Engine(), settings) as (prober, _):
        prober.matrix.deployment.failed(("u", "short"), time.time() + 3600)
        prober.matrix.deployment.failed(("u", "long"), time.time() + 3600)
        async with running(prober):
            await until(lambda: not prober.refuses())
            found = await outcomes(prober, contexts=["short"])
        assert found["short", "golden"] is Outcome.PASSED
        assert found["short", "chat"] is Outcome.PASSED
        assert found["short", "long"] is Outcome.ERROR
        assert len(found) == len(NAMES)


async def test_results_outlive_the_process_with_their_release() -> None:
    async with probing(Engine(), kinds=("golden", "chat")) as (prober, made):
        async with running(prober):
            await until(lambda: len(prober.results.of_unit("u")) == 4)
        kept = json.loads(json.dumps(prober.snapshot()))
        other = Prober(made, list(prober.matrix.subjects.values()), BANDS, QUICK)
        other.restore(kept)
        before, after = prober.described("u"), other.described("u")
        assert before is not None
        assert after is not None
        assert after["results"] == [{**each, "current": True} for each in before["results"]]
        assert {each["release"] for each in after["results"]} == {"r1"}
        assert after["budget"]["used"]["requests"] == before["budget"]["used"]["requests"]


async def test_a_restart_probes_nothing_anew_that_is_known() -> None:
    engine, settings = Engine(), replace(QUICK, interval=3600)
    async with probing(engine, settings, kinds=("golden", "chat")) as (prober, made):
        async with running(prober):
            await until(lambda: len(prober.results.of_unit("u")) == 4)
        before = engine.generated
        other = Prober(made, list(prober.matrix.subjects.values()), BANDS, settings)
        other.restore(json.loads(json.dumps(prober.snapshot())))
        async with running(other):
            await until(lambda: bool(other.identity("u")))
            await asyncio.sleep(0.3)
        assert engine.generated == before
        assert other.view.summary("u") == prober.view.summary("u")


async def test_settings_that_change_a_unit_probe_all_of_it_again() -> None:
    engine, settings = Engine(), replace(QUICK, interval=3600)
    async with probing(engine, settings, kinds=("golden",)) as (prober, _), running(prober):
        await until(lambda: len(prober.results.of_unit("u")) == 2)
        before = prober.identity("u")
        (subject,) = prober.matrix.subjects.values()
        changed = replace(subject, unit=replace(subject.unit, driver="550.1"))
        await prober.reconfigure([changed], BANDS)
        assert prober.identity("u") != before
        await until(
            lambda: {r.identity for r in prober.results.of_unit("u")} == {prober.identity("u")}
        )


async def test_a_unit_that_gets_a_place_to_be_probed_at_is_probed() -> None:
    engine = Engine()
    async with engine.serve() as server:
        prober = Prober(services_of(UNIT), [], BANDS, QUICK)
        async with running(prober):
            assert prober.described("u") is None
            await prober.reconfigure([Subject(UNIT, Target(server.url, "m"), ("golden",))], BANDS)
            await until(lambda: len(prober.results.of_unit("u")) == 2)
            await prober.reconfigure([], BANDS)
            assert prober.described("u") is None


@pytest.mark.parametrize("content", [None, 7, {}, {"results": [{}]}, {"results": [], "able": [1]}])
async def test_results_that_cannot_be_read_are_probed_anew(content: Any) -> None:
    prober = Prober(services_of(UNIT), [Subject(UNIT, Target("http://h", "m"))], BANDS)
    prober.restore(content)
    assert prober.results.of_unit("u") == []


async def test_nothing_runs_where_nothing_is_to_be_probed() -> None:
    prober = Prober(services_of(UNIT), [], BANDS)
    await prober.start()
    assert prober.described("u") is None
    assert prober.view.summary("u") is None
    await prober.stop()


async def test_stopping_ends_a_probe_in_flight() -> None:
    engine = Engine()
    stuck = asyncio.Event()

    async def never(request: Any) -> Any:
        stuck.set()
        await asyncio.sleep(3600)

    engine._chat = never  # type: ignore[method-assign]
    async with probing(engine) as (prober, _):
        await prober.start()
        await asyncio.wait_for(stuck.wait(), 20)
        await asyncio.wait_for(prober.stop(), 20)
