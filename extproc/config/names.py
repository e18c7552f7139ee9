"""Names of settings: what people write instead, and what the environment calls them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from extproc.config.model import Settings

PREFIX: str = Settings.model_config["env_prefix"]
"""How the names of environment variables begin."""

Location = tuple[str | int, ...]


def meant(location: Location) -> str:
    """ ", did you mean ...?" for a setting that there is not, "" where nothing is alike."""
    model: type[BaseModel] | None = Settings
    for part in location[:-1]:
        if isinstance(part, str) and model is not None:
            field = model.model_fields.get(part)
            model = _model(field.annotation) if field is not None else None
    alike = get_close_matches(str(location[-1]), model.model_fields if model else (), n=1)
    return f"; did you mean {alike[0]}?" if alike else ""


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model within ``X``, ``X | None``, ``list[X]`` or ``dict[str, X]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model(part))), None)


def variable(location: Location) -> str:
    """The environment variable that brought a setting, as a place; "" if none did."""
    there = {name.upper(): name for name in os.environ}
    for length in range(len(location), 0, -1):
        key = PREFIX + "__".join(str(part) for part in location[:length])
        name = there.get(key.upper())
        if name is not None and _brings(os.environ[name], location[length:]):
            return f"environment: {name}"
    return ""


def _brings(text: str, rest: Location) -> bool:
    """Whether the JSON of a group of settings holds one of them."""
    if not rest:
        return True
    try:
        value = json.loads(text)
        for part in rest:
            value = value[part]
    except (ValueError, LookupError, TypeError):
        return False
    return True


def misnamed() -> Iterator[str]:
    """Variables whose name is nearly that of a setting, and which would do nothing."""
    nearly = _nearly()
    for name in sorted(os.environ):
        right = nearly.get(name.upper())
        if right is not None:
            yield f"{name}: does nothing; two underscores part a group from its setting: {right}"


@cache
def _nearly() -> dict[str, str]:
    """Variables with one underscore too few -> the right one."""
    found = {}
    for path in _paths(Settings):
        wrong = PREFIX + "_".join(path).upper()
        if len(path) > 1:
            found[wrong] = PREFIX + "__".join(path).upper()
    for name in Settings.model_fields:
        found.pop(PREFIX + name.upper(), None)
    return found


def _paths(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        yield (*above, name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _paths(inner, (*above, name))
