"""Whether a file on the disk is still the one that was read."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, ...]


def stamp(path: Path) -> Stamp | None:
    """Another one once the file was written or replaced; None while it is away.

    Of the file behind a link: Kubernetes swaps the link. With the time of its last change of any
    kind, since a copy may keep the time of the original's content.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
