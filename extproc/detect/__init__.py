"""Events -> findings -> verdict. Pure and incremental: no clock, no I/O."""

from extproc.detect.catalogue import Catalogue, default_catalogue
from extproc.detect.finding import Finding, Kind, Verdict, Weight
from extproc.detect.inspector import Inspector

__all__ = ["Catalogue", "Finding", "Inspector", "Kind", "Verdict", "Weight", "default_catalogue"]
