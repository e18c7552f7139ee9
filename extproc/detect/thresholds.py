"""The thresholds of a detector class: what they are, and the class with others.

Thresholds are constructor data: plain numbers, or a dataclass of them named ``limits``. They are
named by their path, ``characters`` or ``mid.phrase.copies``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import partialmethod
from typing import Any


def thresholds(kind: type) -> dict[str, object]:
    """The defaults by name; those of a nested limit as a nested dict."""
    out: dict[str, object] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        value = parameter.default
        if _is_number(value):
            out[name] = value
        elif name == "limits" and _is_limits(value):
            out.update(asdict(value))
    return out


def paths(kind: type) -> dict[str, float]:
    """The defaults by their path."""
    out: dict[str, float] = {}

    def walk(values: Mapping[str, Any], prefix: str) -> None:
        for name, value in values.items():
            if isinstance(value, Mapping):
                walk(value, f"{prefix}{name}.")
            elif _is_number(value):
                out[f"{prefix}{name}"] = value

    walk(thresholds(kind), "")
    return out


def with_thresholds(kind: type[Any], changed: Mapping[str, float]) -> type[Any]:
    """``kind`` with other defaults, by path. Raises ValueError for a path it has not."""
    if not changed:
        return kind
    if unknown := sorted(changed.keys() - paths(kind).keys()):
        raise ValueError(
            f"{kind.name} has no threshold {', '.join(unknown)}; known: {', '.join(paths(kind))}"
        )
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in changed:
            given[name] = type(parameter.default)(changed[name])
        elif name == "limits" and _is_limits(parameter.default):
            given[name] = _replaced(parameter.default, changed, "")
    changes = {"__init__": partialmethod(kind.__init__, **given), "__slots__": ()}
    return type(kind.__name__, (kind,), {**changes, "__doc__": kind.__doc__})


def _replaced(value: Any, changed: Mapping[str, float], prefix: str) -> Any:
    """The value at ``prefix`` with what lies below it changed."""
    if isinstance(value, Mapping):
        return {key: _replaced(v, changed, f"{prefix}{key}.") for key, v in value.items()}
    if _is_limits(value):
        return replace(
            value,
            **{
                f.name: _replaced(getattr(value, f.name), changed, f"{prefix}{f.name}.")
                for f in fields(value)
            },
        )
    path = prefix[:-1]
    return type(value)(changed[path]) if path in changed else value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_limits(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type)
