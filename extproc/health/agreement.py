"""What this sidecar tells the others about its units, and what it takes over from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extproc.health.definitions import Dispute, Gateway, definition, disputes
from extproc.health.evidence import Evidence, Subject
from extproc.health.ledger import Ledger
from extproc.health.report import ALL, Change
from extproc.health.shared import (
    Key,
    SharedState,
    SharedVerification,
    Telling,
    supersedes,
    verification_key,
    was_first,
)
from extproc.health.states import SEVERITY, State
from extproc.health.verification import Verification
from extproc.units import Unit


class Agreement:
    """Between the book and the fleet. ``instance`` names this sidecar, ``units`` are those that
    its configuration defines.

    What changed here since it was last told gets the next epoch; of what others tell, only what
    supersedes the last telling is taken over. ``told``: what ``shared`` said before a restart.
    """

    def __init__(
        self,
        ledger: Ledger,
        instance: str,
        told: Iterable[Telling] = (),
        units: Iterable[Unit] = (),
    ) -> None:
        self._ledger = ledger
        self._instance = instance
        self._told: dict[Key, Telling] = {each.key: each for each in told}
        self.gateway = Gateway(instance, {})
        self.define(units)
        self.disputes: dict[str, Dispute] = {}
        """Units that another sidecar defines differently."""
        self._joining: set[str] = set()

    def define(self, units: Iterable[Unit]) -> None:
        """These are the units that the configuration defines now."""
        self.gateway = Gateway(self._instance, {unit.id: definition(unit) for unit in units})

    def shared(self) -> dict[Key, Telling]:
        """The states of all units as they are now, and what is said of fallbacks. A unit that was
        always in ``pass`` is no news: it is told only once something has been told of it."""
        for unit in self._ledger.units:
            for context in {ALL, *(context for _, context, _ in self._ledger.tracks(unit))}:
                if not self._kept_apart(unit, context):
                    self._tell(unit, context)
        for said in self._ledger.verifications:
            if not self._kept_apart(said.unit):
                self._tell_verification(said)
        return {
            key: each
            for key, each in self._told.items()
            if not self._kept_apart(each.unit, key[1] if isinstance(each, SharedState) else "")
        }

    @property
    def told(self) -> list[Telling]:
        """All that was told, to be kept over a restart."""
        self.shared()
        return list(self._told.values())

    def adopt(self, told: Sequence[Telling], at: float) -> list[Change]:
        """Takes over what others tell, where it holds against what is known here."""
        self.shared()  # what changed here meanwhile has its epoch before it is compared
        changes: list[Change] = []
        for each in told:
            own = self._told.get(each.key)
            if isinstance(each, SharedState):
                if self._kept_apart(each.unit, each.context):
                    continue
                if supersedes(each, own):
                    self._told[each.key] = each
                    changes += self._impose(each, at)
                    continue
            elif not self._kept_apart(each.unit) and supersedes(each, own):
                self._told[each.key] = each
                changes += self._ledger.adopt_verification(each.said, at)
                continue
            if own is not None and was_first(each, own):
                self._told[each.key] = each
        self._joining.clear()
        return changes

    def meet(self, gateways: Iterable[Gateway]) -> bool:
        """Takes what the sidecars of the fleet mean by the units' names. True when ``disputes``
        are others than before."""
        found = disputes(self.gateway, gateways)
        if found == self.disputes:
            return False
        self._joining |= {
            unit for unit, was in self.disputes.items() if was.apart and not _apart(found, unit)
        }
        self.disputes = found
        return True

    def told_here(self, record: Evidence) -> bool:
        """Whether the change behind ``record`` is one that the fleet shares, and that stands as
        this sidecar's own."""
        if record.subject is Subject.VERIFICATION:
            key = verification_key(record.unit, record.release)
        elif record.host != ALL:
            return False
        else:
            key = record.unit, record.context
        told = self.shared().get(key)
        return told is not None and told.by == self._instance

    def _impose(self, told: SharedState, at: float) -> list[Change]:
        here = self._ledger.class_state(told.unit, told.context)
        if told.unit in self._joining and SEVERITY[here] > SEVERITY[told.state]:
            return []  # found while it stood apart: it is told next
        return self._ledger.impose(
            told.unit, told.context, told.state, told.release, told.cause, at
        )

    def _kept_apart(self, unit: str, context: str = "") -> bool:
        # An operator's word is on a name, whatever stands behind it.
        return context != ALL and _apart(self.disputes, unit)

    def _tell(self, unit: str, context: str) -> None:
        ledger, last = self._ledger, self._told.get((unit, context))
        before = last.state if isinstance(last, SharedState) else None
        held = ledger.held(unit)
        if context == ALL:
            now = State.QUARANTINE if held is not None else State.OBSERVE
            before = before or State.OBSERVE
        else:
            now = ledger.class_state(unit, context)
            before = before or State.PASS
        if now is before:
            return
        epoch = last.epoch + 1 if last is not None else 1
        cause = held if context == ALL and held is not None else ledger.cause(unit, context)
        self._told[unit, context] = SharedState(
            unit, context, now, epoch, ledger.release(unit), cause, self._instance,
            ledger.since(unit),
        )  # fmt: skip

    def _tell_verification(self, said: Verification) -> None:
        key = verification_key(said.unit, said.release)
        last = self._told.get(key)
        if isinstance(last, SharedVerification) and last.said == said:
            return
        epoch = last.epoch + 1 if last is not None else 1
        self._told[key] = SharedVerification(
            said.unit, said.release, said.until, said.cause, said.at, said.lapsed, epoch,
            self._instance,
        )  # fmt: skip


def _apart(found: dict[str, Dispute], unit: str) -> bool:
    return unit in found and found[unit].apart
