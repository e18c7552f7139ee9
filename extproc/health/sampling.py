"""Which responses are inspected: all of a unit that is observed, a fixed share of one that is well.

The share is kept for each host and context class apart: a fault of one host, or in long prompts
only, is met as early as any. No chance is involved, so nothing is missed by bad luck.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType

from extproc.health.states import State

MAX_STRATA = 4096


class Sampler:
    """``share``: of responses while a unit passes, 0 to 1; ``shares``: of single units."""

    def __init__(
        self, share: float = 1.0, shares: Mapping[str, float] = MappingProxyType({})
    ) -> None:
        self._share = share
        self._shares = dict(shares)
        self._owed: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def takes(self, unit: str, host: str, context: str, state: State) -> bool:
        """Whether the next response of this stratum is inspected."""
        share = self._shares.get(unit, self._share)
        if share >= 1.0 or state is not State.PASS:
            return True
        if share <= 0.0:
            return False
        key = unit, host, context
        # A new stratum is owed its first response: what nobody has seen is looked at.
        owed = self._owed.pop(key, 1.0 - share) + share
        takes = owed >= 1.0
        self._owed[key] = owed - 1.0 if takes else owed
        if len(self._owed) > MAX_STRATA:
            self._owed.popitem(last=False)
        return takes
