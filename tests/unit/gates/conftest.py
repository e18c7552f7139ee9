"""Gates in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.gates.fake import Gates


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path)
