"""Whether a JSON value keeps a schema that a client gave: bounded, as it may be made to hang us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

STEPS = 2_000
"""Keywords evaluated before an answer is given up: a page of a form takes a few hundred. References
that fork at every level double the work with each, and 20 levels fit into any schema."""

WORK = 40_000
"""Items, properties and characters that these keywords may go through: one keyword goes through all
that stand beneath it, though the schema says nothing of them ("items": true)."""

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
    try:
        if len(repr(schema)) > SIZE:
            return None
        validator: Any = extend(Draft202012Validator, _counted())  # type: ignore[no-untyped-call]
        problem = next(validator(schema, registry=_known(schema)).iter_errors(value), None)
    except Exception:  # a client's schema may be anything
        return None
    return None if problem is None else str(problem.validator)


def _known(schema: dict[str, Any]) -> Any:
    """All names that a schema gives its parts, looked for once and not with every reference."""
    resource = DRAFT202012.create_resource(schema)
    return Registry().with_resource(resource.id() or "", resource).crawl()


def _counted() -> dict[str, Callable[..., Iterator[Any]]]:
    """All keywords, with one budget for all of them."""
    steps, work = STEPS, WORK

    def counted(name: str, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def step(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
            nonlocal steps, work
            steps -= 1
            work -= _breadth(value) + (
                len(repr(wanted)) if name in ("enum", "const") else _breadth(wanted)
            )
            if steps < 0 or work < 0:
                raise _TooMuch
            return check(validator, wanted, value, schema)

        return step

    kept = {**Draft202012Validator.VALIDATORS, "additionalProperties": _additional}
    return {
        name: counted(name, _nothing if name in _UNREAD else check) for name, check in kept.items()
    }


def _breadth(value: Any) -> int:
    return len(value) if isinstance(value, (dict, list, str)) else 0


def _additional(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
    # Which properties these are, the patterns beside it tell, and these are not read.
    if "patternProperties" in schema:
        return None
    return Draft202012Validator.VALIDATORS["additionalProperties"](validator, wanted, value, schema)


def _nothing(*_: Any) -> None:
    return None
