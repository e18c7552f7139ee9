"""Events -> findings -> verdict. Pure and incremental: no clock, no I/O."""

from extproc.detect.catalogue import Catalogue, Entry, default_catalogue, entries, reason_names
from extproc.detect.finding import Finding, Kind, Verdict, Weight
from extproc.detect.inspector import Inspector
from extproc.detect.policy import Baseline, Policy
from extproc.detect.salad import prepare

__all__ = [
    "Baseline",
    "Catalogue",
    "Entry",
    "Finding",
    "Inspector",
    "Kind",
    "Policy",
    "Verdict",
    "Weight",
    "default_catalogue",
    "entries",
    "prepare",
    "reason_names",
]
