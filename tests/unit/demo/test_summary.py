"""The promise is kept only when every part of it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from extproc.demo.board import Board
from extproc.demo.load import Tally
from extproc.demo.sidecar import UnitStatus
from extproc.demo.summary import BOTH_FLAGS, summarize
from extproc.demo.topology import UNIT_A, UNIT_B, Topology

ALIAS = "unit-b-r1"


def board(tmp_path: Path) -> Board:
    """After a run in which all went well."""
    nobody: Any = None
    made = Board(
        Topology.on_free_ports(tmp_path),
        Tally(requests=40),
        nobody,
        nobody,
        say=lambda _: None,
        clock=lambda: 0.0,
    )
    made.tally.answers[ALIAS] = 20
    made.retries = made.corrupt_generated = 6
    made.quarantined_at = 12.5
    made.rows[UNIT_A].status = UnitStatus("r2", "quarantine", "hard", 6, 6)
    made.rows[UNIT_A].flags_ever = frozenset(BOTH_FLAGS)
    made.rows[UNIT_B].status = UnitStatus("r1", "pass")
    return made


def test_a_run_in_which_all_went_well(tmp_path: Path) -> None:
    summary = summarize(board(tmp_path), ALIAS, rolled_out=10.0, seconds=20.0, upstream="recorded")
    assert summary.kept
    assert summary.unit_a_envoy_flags == "/failed_active_hc/failed_outlier_check"
    assert summary.unit_b_envoy_flags == "healthy"
    assert summary.seconds_to_quarantine == 2.5


def _delivered(board: Board) -> None:
    board.tally.corrupt_delivered = 1


def _error(board: Board) -> None:
    board.tally.errors = 1


def _no_fault(board: Board) -> None:
    board.corrupt_generated = 0


def _only_observed(board: Board) -> None:
    board.rows[UNIT_A].status = UnitStatus("r2", "observe")


def _not_ejected(board: Board) -> None:
    board.rows[UNIT_A].flags_ever = frozenset(BOTH_FLAGS[:1])


def _other_out(board: Board) -> None:
    board.rows[UNIT_B].flags_ever = frozenset(BOTH_FLAGS[:1])


def _other_silent(board: Board) -> None:
    board.tally.answers.clear()


@pytest.mark.parametrize(
    "spoil",
    [_delivered, _error, _no_fault, _only_observed, _not_ejected, _other_out, _other_silent],
)
def test_one_thing_that_went_wrong_breaks_the_promise(
    tmp_path: Path, spoil: Callable[[Board], None]
) -> None:
    spoiled = board(tmp_path)
    spoil(spoiled)
    assert not summarize(spoiled, ALIAS, 10.0, 20.0, "recorded").kept
