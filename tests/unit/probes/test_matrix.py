from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extproc.probes import Target
from extproc.probes.kinds import NAMES, Outcome
from extproc.probes.matrix import Matrix, Pauses, Subject, Why, bands
from extproc.probes.results import Cell, Result, Results
from extproc.probes.schedule import Rounds
from extproc.units import Unit

CONTEXTS = st.sampled_from(["short", "long"])
CELLS = st.sets(
    st.builds(Cell, st.sampled_from("abc"), CONTEXTS, st.sampled_from(NAMES)), min_size=1
)


@given(CELLS, st.integers(0, 5))
def test_each_cell_is_met_once_a_round(cells: set[Cell], seed: int) -> None:
    rounds = Rounds(seed)
    for _ in range(3):
        met = [rounds.next(sorted(cells)) for _ in cells]
        assert set(met) == cells


@given(CELLS, st.integers(0, 5))
def test_the_order_is_the_seeds(cells: set[Cell], seed: int) -> None:
    one, other = Rounds(seed), Rounds(seed)
    assert [one.next(list(cells)) for _ in range(20)] == [
        other.next(sorted(cells)) for _ in range(20)
    ]


def test_strata_follow_each_other_in_turn() -> None:
    cells = [Cell(unit, "short", kind) for unit in "abc" for kind in NAMES]
    rounds = Rounds(1)
    met = [rounds.next(cells) for _ in cells]
    for at in range(0, len(met), 3):
        assert {cell.unit for cell in met[at : at + 3] if cell} == {"a", "b", "c"}


@given(st.lists(CELLS, min_size=2, max_size=5))
def test_cells_may_come_and_go(changes: list[set[Cell]]) -> None:
    rounds = Rounds()
    for cells in changes:
        for _ in range(len(cells)):
            assert rounds.next(list(cells)) in cells
    assert rounds.next([]) is None


UNIT = Unit("u", model="m", engine="vllm", engine_version="1", release="r1")
SUBJECT = Subject(UNIT, Target("http://h"), ("golden", "chat"))
BANDS = bands([("short", 1000), ("middle", 5000)], "long")


def result(cell: Cell, identity: str, outcome: Outcome = Outcome.PASSED) -> Result:
    return Result(cell, "r1", identity, outcome, 0.0)


def test_classes_become_bands_of_request_size() -> None:
    assert [(b.name, b.low, b.high) for b in BANDS] == [
        ("short", 0, 1000),
        ("middle", 1000, 5000),
        ("long", 5000, None),
    ]


def test_what_changes_the_execution_path_changes_the_identity() -> None:
    def identity(release: str = "r1", engine: str = "e", **fields: object) -> str:
        unit = Unit(**{"id": "u", "model": "m", **fields})  # type: ignore[arg-type]
        return Subject(unit, Target("http://h")).identity(release, engine)

    base = identity()
    changes = [
        identity("r2"),
        identity(engine="f"),
        identity(engine_version="2"),
        identity(driver="550"),
        identity(quantization="fp8"),
        identity(backend="flashinfer"),
        identity(kv_dtype="fp8"),
        identity(tensor_parallel=4),
        identity(prefix_cache=True),
    ]
    assert base not in changes
    assert len(set(changes)) == len(changes)
    assert identity(id="v") == identity(fallback=("v",)) == identity(verified=True) == base


def test_quarantine_comes_before_deployment_and_that_before_samples() -> None:
    results, out = Results(), {("u", "long")}
    matrix = Matrix([SUBJECT], BANDS, results, lambda unit, context: (unit, context) in out)
    identities = {"u": "i"}

    def due(at: float) -> tuple[Why, set[str]] | None:
        job = matrix.due(identities, at)
        return (job.why, {cell.context for cell in job.cells}) if job else None

    assert due(0.0) == (Why.RECOVERY, {"long"})
    matrix.recovery.failed(("u", "long"), 0.0)
    assert due(1.0) == (Why.DEPLOYMENT, {"short"})
    for context in ("short", "middle"):
        for cell in matrix.cells("u", [context]):
            results.put(result(cell, "i"), "m")
    assert matrix.due(identities, 2.0) is None
    assert due(31.0) == (Why.RECOVERY, {"long"})
    matrix.recovery.failed(("u", "long"), 31.0)
    job = matrix.due(identities, 62.0)
    assert job is not None
    assert job.why is Why.SAMPLE
    assert matrix.due(identities, 63.0) is None
    out.clear()
    assert due(64.0) == (Why.DEPLOYMENT, {"long"})


def test_one_that_fails_each_time_does_not_keep_the_others_waiting() -> None:
    others = [Subject(Unit(name), Target("http://h"), ("golden",)) for name in "ab"]
    matrix = Matrix(others, BANDS[:1], Results(), lambda unit, context: False)
    met = []
    for at in range(0, 10_000, 1000):  # longer than any pause
        job = matrix.due({}, float(at))
        assert job is not None
        met.append(job.cells[0].unit)
        matrix.deployment.failed((job.cells[0].unit, "short"), float(at))
    assert met == list("ab") * 5


def test_an_error_is_no_judgement() -> None:
    results = Results()
    matrix = Matrix([SUBJECT], BANDS[:1], results, lambda unit, context: False)
    for cell in matrix.cells("u"):
        results.put(result(cell, "i", Outcome.ERROR if cell.kind == "chat" else Outcome.FAILED), "")
    job = matrix.due({"u": "i"}, 0.0)
    assert job == (Why.DEPLOYMENT, (Cell("u", "short", "chat"),))


def test_pauses_double_to_a_bound() -> None:
    pauses, key, at = Pauses(10.0, 35.0), ("u", "short"), 0.0
    waited = []
    for _ in range(4):
        pauses.failed(key, at)
        start = at
        while not pauses.due(key, at):
            at += 1.0
        waited.append(at - start)
    assert waited == [10.0, 20.0, 35.0, 35.0]
    pauses.clear(key)
    assert pauses.due(key, at)


def test_what_one_unit_can_do_another_of_its_model_can() -> None:
    results = Results()
    results.put(result(Cell("a", "short", "golden"), "i"), "m")
    assert results.able(Cell("b", "short", "golden"), "m")
    assert not results.able(Cell("b", "long", "golden"), "m")
    assert not results.able(Cell("b", "short", "golden"), "other")
    assert not results.able(Cell("b", "short", "golden"), "")
