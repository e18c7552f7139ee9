"""Whether a JSON value keeps a schema that a client gave: bounded, as it may be made to hang us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend
from referencing import Registry

STEPS = 2_000
"""Keywords evaluated before an answer is given up: a page of a form takes a few hundred. References
that fork at every level double the work with each, and 20 levels fit into any schema."""

SIZE = 20_000
"""Characters of a schema that is still looked at."""

_UNREAD = (
    # A pattern may backtrack for ever.
    *("pattern", "patternProperties", "format"),
    # What these do beneath one step is not bounded by it.
    *("uniqueItems", "unevaluatedItems", "unevaluatedProperties"),
)


class _TooMuch(Exception):
    pass


def broken_keyword(schema: dict[str, Any], value: object) -> str | None:
    """The keyword that ``value`` breaks; None when it breaks none, or it cannot be told: the
    schema is none, is too long, or takes too many steps."""
    if len(repr(schema)) > SIZE:
        return None
    validator: Any = extend(Draft202012Validator, _counted())  # type: ignore[no-untyped-call]
    try:
        problem = next(validator(schema, registry=Registry()).iter_errors(value), None)
    except Exception:  # a client's schema may be anything
        return None
    return None if problem is None else str(problem.validator)


def _counted() -> dict[str, Callable[..., Iterator[Any]]]:
    """All keywords, with one budget for all of them."""
    left = STEPS

    def counted(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def step(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _TooMuch
            return check(*args)

        return step

    kept = Draft202012Validator.VALIDATORS
    return {name: counted(_nothing if name in _UNREAD else check) for name, check in kept.items()}


def _nothing(*_: Any) -> None:
    return None
