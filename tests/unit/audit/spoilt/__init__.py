"""One way or more to trip each check: the shipped configuration, spoilt in one place."""

from tests.unit.audit.spoilt import filtering, rest, traffic, watching
from tests.unit.audit.spoilt.base import CASES, Case
from tests.unit.audit.spoilt.rest import RUNNING

__all__ = ["CASES", "RUNNING", "Case", "filtering", "rest", "traffic", "watching"]
