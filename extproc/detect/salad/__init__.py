"""Word salad: unrelated words, or subwords welded together, in the Latin script."""

from __future__ import annotations

from extproc.detect.salad.detector import Salad

__all__ = ["Salad"]
