"""One way or more to trip each check: the shipped configuration, spoilt in one place."""

from tests.unit.audit.spoilt import filtering, rest, traffic, watching
from tests.unit.audit.spoilt.base import CASES, Case
from tests.unit.audit.spoilt.rest import RUNNING

SPOILT = {case.id: case.change for case in reversed(CASES)}
"""The first way to trip each check."""

__all__ = ["CASES", "RUNNING", "SPOILT", "Case", "filtering", "rest", "traffic", "watching"]
