"""Events -> findings -> verdict. Pure and incremental: no clock, no I/O."""

from extproc.detect.catalogue import (
    Catalogue,
    entries,
    make_catalogue,
    policy_problems,
)
from extproc.detect.finding import Finding, Kind, Verdict, Weight
from extproc.detect.inspector import Inspector
from extproc.detect.policy import Policy, learn
from extproc.detect.salad import prepare

__all__ = [
    "Catalogue",
    "Finding",
    "Inspector",
    "Kind",
    "Policy",
    "Verdict",
    "Weight",
    "entries",
    "learn",
    "make_catalogue",
    "policy_problems",
    "prepare",
]
