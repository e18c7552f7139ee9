"""What outlives a run: the record of each release, and who approved which.

A folder::

    releases/<release>.json   what was last measured of a release (written anew by each run)
    accepted/<model>.json     the record of the last release whose execution path passed
    approvals.jsonl           who approved what, when and why (only ever appended to)
    runs/<key>.json           the state of a run, so that it can be resumed

An approval carries its own copy of the record: a later run of the same release that takes another
path is not covered by it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from extproc.gates.startup import Scalar

VERSION = 1


class StoreTrouble(Exception):
    """The folder cannot be used; the text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Record:
    """One release as a run saw it. ``path``: the execution path; ``alarms``: keys of the start-up
    log's fallback lines; ``reference``: the numbers of gate 2, without any text."""

    release: str
    model: str
    at: str
    path: Mapping[str, Scalar] = field(default_factory=dict)
    alarms: tuple[str, ...] = ()
    reference: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    """What that run came to."""

    def as_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "version": VERSION,
            "release": self.release,
            "model": self.model,
            "at": self.at,
            "result": self.result,
            "path": dict(self.path),
            "alarms": list(self.alarms),
            "reference": dict(self.reference),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Record:
        """What ``as_dict`` wrote. Raises KeyError, TypeError or ValueError."""
        if content["version"] != VERSION:
            raise ValueError(f"written by another version ({content['version']!r})")
        return cls(
            str(content["release"]),
            str(content["model"]),
            str(content["at"]),
            dict(content["path"]),
            tuple(str(key) for key in content["alarms"]),
            dict(content["reference"]),
            str(content["result"]),
        )


@dataclass(frozen=True, slots=True)
class Approval:
    """Somebody's word that a release's record is as it should be."""

    by: str
    reason: str
    at: str
    record: Record

    def as_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "at": self.at,
            "by": self.by,
            "reason": self.reason,
            "record": self.record.as_dict(),
        }


class Store:
    """The folder. Methods raise StoreTrouble when it cannot be read or written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._approvals = folder / "approvals.jsonl"

    def save(self, record: Record) -> None:
        """Keeps what was measured of a release."""
        self.write(self._release_file(record.release), record.as_dict())

    def record(self, release: str) -> Record | None:
        """What was last measured of a release."""
        path = self._release_file(release)
        content = self.read(path)
        return None if content is None else _record(content, path)

    def accept(self, record: Record) -> None:
        """Keeps a record as that of the last release of its model whose path passed."""
        self.write(self._accepted_file(record.model), record.as_dict())

    def accepted(self, model: str) -> Record | None:
        """The record of the last release of ``model`` whose path passed."""
        path = self._accepted_file(model)
        content = self.read(path)
        return None if content is None else _record(content, path)

    def releases(self) -> list[str]:
        """The releases that have a record."""
        found = []
        for path in sorted((self.folder / "releases").glob("*.json")):
            content = self.read(path)
            if content is not None:
                found.append(_record(content, path).release)
        return found

    def approve(self, release: str, by: str, reason: str) -> Approval:
        """Appends an approval of the record of ``release``. Raises LookupError without one."""
        record = self.record(release)
        if record is None:
            raise LookupError(release)
        approval = Approval(by, reason, now(), record)
        line = json.dumps(approval.as_dict(), allow_nan=False) + "\n"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._approvals.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _trouble(self._approvals, error) from None
        return approval

    def approvals(self) -> list[Approval]:
        """All of them, oldest first."""
        try:
            text = self._approvals.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise _trouble(self._approvals, error) from None
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                content = json.loads(line)
                record = Record.from_dict(content["record"])
                approval = Approval(
                    str(content["by"]), str(content["reason"]), str(content["at"]), record
                )
            except (KeyError, TypeError, ValueError) as error:
                raise StoreTrouble(
                    f"{self._approvals}:{number}: is no approval ({error}); restore the file, or "
                    "remove the line if you know where it came from"
                ) from None
            found.append(approval)
        return found

    def reference(self, release: str, model: str) -> Approval | None:
        """What ``release`` is held against: its own approval, or else the latest of its model."""
        approvals = self.approvals()
        own = [approval for approval in approvals if approval.record.release == release]
        same = [approval for approval in approvals if approval.record.model == model]
        return own[-1] if own else same[-1] if same else None

    def run_file(self, key: str) -> Path:
        """Where the state of a run is."""
        return self.folder / "runs" / f"{key}.json"

    def read(self, path: Path) -> dict[str, Any] | None:
        """A JSON object, None if there is no such file."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _trouble(path, error) from None
        if not isinstance(content, dict):
            raise StoreTrouble(f"{path}: holds no object; move it away")
        return content

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Replaces a file at once: a crash leaves the old or the new one, never half of it."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(content, file, allow_nan=False, indent=1)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise _trouble(path, error) from None

    def _accepted_file(self, model: str) -> Path:
        return self.folder / "accepted" / f"{quote(model, safe='') or 'model'}.json"

    def _release_file(self, release: str) -> Path:
        return self.folder / "releases" / f"{quote(release, safe='')}.json"


def now() -> str:
    """This moment, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _record(content: Mapping[str, Any], path: Path) -> Record:
    try:
        return Record.from_dict(content)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreTrouble(f"{path}: is no record of a release ({error}); move it away") from None


def _trouble(path: Path, error: Exception) -> StoreTrouble:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StoreTrouble(f"{path}: {reason}; name another folder with --state")
