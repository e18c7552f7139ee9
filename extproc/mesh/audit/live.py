"""Asks a running Envoy's admin interface."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from extproc.mesh.audit.source import Unusable
from extproc.mesh.audit.world import Live
from extproc.plain import without_user

SECONDS = 15.0
MOST = 512 << 20
"""Bytes of an answer that are read; a large mesh's dump has some tens of MiB."""


REMEDY = "is that Envoy's admin address (admin.address of its bootstrap)?"
"""The sidecar has an admin address, too, which goes after ``--sidecar``."""


def is_url(source: str) -> bool:
    """Whether a source is an address rather than a file."""
    return source.startswith(("http://", "https://"))


def base_of(url: str) -> str:
    """The address itself, also when somebody pasted the whole URL of a page there."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def ask(url: str, path: str) -> Any:
    """The JSON at an admin address. Raises Unusable."""
    opener = build_opener(ProxyHandler({}))  # an admin interface is inside
    try:
        with opener.open(url + path, timeout=SECONDS) as answer:
            text = answer.read(MOST)
    except HTTPError as error:
        error.close()
        raise Unusable(f"{without_user(url)}{path}: HTTP {error.code}; {REMEDY}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        said = getattr(reason, "strerror", None) or str(reason)
        said = said if said.isprintable() else "no HTTP/1.1"
        raise Unusable(f"{without_user(url)}: no answer ({said}); {REMEDY}") from None
    try:
        return json.loads(text)
    except ValueError:
        raise Unusable(f"{without_user(url)}{path}: the answer is no JSON; {REMEDY}") from None


def fetch(url: str) -> tuple[Any, Live, Mapping[str, Any]]:
    """The dump of a running Envoy, its counters, and its runtime values. Raises Unusable."""
    base = base_of(url)
    dump = ask(base, "/config_dump?include_eds")
    if not isinstance(dump, dict) or "configs" not in dump:
        raise Unusable(f"{without_user(base)}/config_dump: no configs; {REMEDY}")
    stats = ask(base, "/stats?format=json")
    clusters = ask(base, "/clusters?format=json")
    info = ask(base, "/server_info")
    runtime = ask(base, "/runtime")
    counters = {
        str(entry["name"]): float(entry["value"])
        for entry in stats.get("stats", [])
        if isinstance(entry.get("value"), (int, float))
    }
    version = str(info.get("version", "")).split("/")
    live = Live(
        counters,
        {entry["name"]: entry for entry in clusters.get("cluster_statuses", [])},
        version[1] if len(version) > 1 else "",
    )
    values = {
        name: entry.get("final_value", "")
        for name, entry in runtime.get("entries", {}).items()
        if entry.get("final_value")
    }
    return dump, live, values
