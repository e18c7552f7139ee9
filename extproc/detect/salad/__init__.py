"""Word salad: unrelated words, or subwords welded together, in the Latin script."""

from __future__ import annotations

from extproc.detect.salad.detector import Salad
from extproc.detect.salad.model import model

__all__ = ["Salad", "prepare"]


def prepare() -> None:
    """Reads the model now, so that the first stream need not wait for it (a tenth of a second)."""
    model()
