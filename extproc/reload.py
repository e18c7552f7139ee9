"""The configuration file, read again while the sidecar runs.

A file that cannot be used changes nothing. Settings of what is open for as long as the process
runs (ports, the store) stay as they were at the start, and are named when the file says otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel

from extproc.config import ConfigError, Settings, parse, read
from extproc.config.judging import JudgingModel
from extproc.files import stamp
from extproc.signals.processes import Processes

log = logging.getLogger(__name__)

TAKEN = {
    *JudgingModel.model_fields,
    *("hold", "limits", "health", "sampling", "units", "trusted_headers", "baselines", "paths"),
    *("context_classes", "largest_class", "late_verdict", "log"),
}
"""Settings that new streams go by at once. All others hold from start to end."""

LOOK_SECONDS = 1.0
"""Between two looks at the file, where ``server.watch`` wants them."""

Taken = Callable[[Settings, str], None]
"""What to do with usable settings and the text they came from."""


def under(first: Settings, later: Settings) -> Settings:
    """``later``, but for what the process began with and keeps."""
    return later.model_copy(update={name: getattr(first, name) for name in _fixed()})


def staying(first: Settings, later: Settings) -> Iterator[str]:
    """The settings that ``later`` would have otherwise, if they could change."""
    for group in _fixed():
        now, then = getattr(first, group), getattr(later, group)
        if now == then:
            continue
        if not isinstance(now, BaseModel):
            yield group
            continue
        for name in type(now).model_fields:
            if getattr(now, name) != getattr(then, name):
                yield f"{group}.{name}"


def _fixed() -> list[str]:
    return [name for name in Settings.model_fields if name not in TAKEN]


class Reload:
    """Reads ``path`` again whenever it is called; ``counts`` says how often, and how it went.
    ``done`` is called when they have changed."""

    def __init__(
        self,
        path: Path | None,
        first: Settings,
        taken: Taken,
        counts: Processes,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._first = first
        self._taken = taken
        self._counts = counts
        self._done = done
        counts.reloaded = time.time()

    def __call__(self) -> None:
        """Reads, and hands over what can be used."""
        try:
            self._read()
        finally:
            self._done()

    def _read(self) -> None:
        counts = self._counts
        try:
            text = read(self._path) if self._path is not None else ""
            later = parse(text, str(self._path or "environment"))
        except ConfigError as error:
            counts.reloads["refused"] += 1
            log.error(
                "the configuration cannot be used, nothing is changed: %s",
                "; ".join(error.problems),
                extra={"problems": error.problems},
            )
            return
        kept = list(staying(self._first, later))
        if kept:
            log.warning(
                "only a restart changes %s: that stays as it was, the rest is taken",
                ", ".join(kept),
                extra={"stays": kept},
            )
        counts.reloads["ok"] += 1
        counts.reloaded = time.time()
        self._taken(under(self._first, later), text)
        log.info("the configuration was read again; new streams go by it")

    async def watch(self) -> None:
        """Reads again whenever the file has changed, until cancelled."""
        if self._path is None:
            return
        seen = stamp(self._path)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = stamp(self._path)
            if now != seen and now is not None:  # an editor may take it away for a moment
                seen = now
                self()
