"""Questions to the sidecar's admin interface."""

from __future__ import annotations

import re
from dataclasses import dataclass

import aiohttp

from extproc.demo.http import get_json, get_text

_MARKED = re.compile(r'^semantic_extproc_marked_total\{.*?unit="([^"]*)".*?\} ([0-9.e+]+)$', re.M)


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit as the sidecar sees it. ``corrupt``: answers judged so. ``marked``: of these, caught
    before a byte went out, so that Envoy could retry."""

    release: str = ""
    state: str = "?"
    mode: str = ""
    corrupt: int = 0
    marked: int = 0


class Admin:
    """The sidecar's admin interface. May raise ``aiohttp.ClientError`` or ``TimeoutError``."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self.url = f"http://127.0.0.1:{port}"

    async def units(self) -> dict[str, UnitStatus]:
        """All units by id."""
        metrics = await get_text(self._session, f"{self.url}/metrics")
        marked = {unit: int(float(value)) for unit, value in _MARKED.findall(metrics)}
        answer = await get_json(self._session, f"{self.url}/api/units")
        return {
            unit["id"]: UnitStatus(
                release=unit["release"],
                state=unit["state"],
                mode=unit.get("mode") or "",
                corrupt=unit["counts"]["corrupt"],
                marked=marked.get(unit["id"], 0),
            )
            for unit in answer["units"]
        }
