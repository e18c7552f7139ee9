"""Who answered: deployment units, context classes, fallback order. Pure."""

from extproc.units.context import ContextClasses
from extproc.units.identity import ID, UNKNOWN, Serving, Unit, safe
from extproc.units.naming import no_such
from extproc.units.registry import Registry

__all__ = ["ID", "UNKNOWN", "ContextClasses", "Registry", "Serving", "Unit", "no_such", "safe"]
