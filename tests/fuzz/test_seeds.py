"""Every kept seed, and whatever hypothesis makes of them, holds for its target."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

SEEDS = {
    f"{folder.name}/{path.name}": path
    for folder in sorted(Path(__file__).with_name("seeds").iterdir())
    for path in sorted(folder.iterdir())
}


def test_every_target_has_seeds() -> None:
    assert {name.partition("/")[0] for name in SEEDS} == TARGETS.keys()


@pytest.mark.parametrize("name", SEEDS)
def test_a_kept_seed_holds(name: str) -> None:
    TARGETS[name.partition("/")[0]](SEEDS[name].read_bytes())


@given(
    st.sampled_from(sorted(SEEDS)), st.integers(0, 1 << 16), st.integers(0, 1 << 16), st.binary()
)
@settings(max_examples=150, deadline=None)
def test_a_damaged_seed_holds(name: str, a: int, b: int, junk: bytes) -> None:
    data = SEEDS[name].read_bytes()
    start, end = sorted((a % (len(data) + 1), b % (len(data) + 1)))
    TARGETS[name.partition("/")[0]](data[:start] + junk[:16] + data[end:])
