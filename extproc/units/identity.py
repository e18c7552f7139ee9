"""What a deployment unit is: everything that changes the execution path, under one id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._|:/@+=-]{0,126}[A-Za-z0-9])?")
"""Unit ids, releases and host names: safe as a header value, a metric label and an HTTP Host."""

_LONGEST = 128

UNKNOWN = "unknown"
"""The id under which responses are counted whose unit nobody named."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One configuration of model and engine, and what the operator said of it.

    Hosts that share a unit share one failure domain: what is wrong with the configuration is
    wrong on all of them.
    """

    id: str
    model: str = ""
    engine: str = ""
    engine_version: str = ""
    quantization: str = ""
    backend: str = ""
    dtype: str = ""
    kv_dtype: str = ""
    tensor_parallel: int = 1
    speculative: str = ""
    prefix_cache: bool | None = None
    driver: str = ""
    release: str = ""
    fallback: tuple[str, ...] = ()
    """Units that may take this unit's traffic, in order of preference."""

    verified: bool = False
    """Whether the operator vouches for the release it runs now."""


class Serving(NamedTuple):
    """Who answered one request."""

    unit: str
    release: str
    host: str


def safe(value: object) -> str:
    """``value`` if it may serve as an id, else "". Metadata can hold anything."""
    return value if isinstance(value, str) and len(value) <= _LONGEST and _is_id(value) else ""


@lru_cache(maxsize=4096)
def _is_id(value: str) -> bool:
    # Ids are few and come with every response.
    return ID.fullmatch(value) is not None
