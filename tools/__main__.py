"""Writes every generated file and part of a file; ``--check`` only says which are out of date."""

from __future__ import annotations

import sys

from tools.generated import ROOT, generated


def main(arguments: list[str]) -> int:
    """Exit codes: 0 nothing was out of date or all of it was written, 1 --check found something."""
    stale = [(path, text) for path, text in generated() if path.read_text() != text]
    for path, text in stale:
        if "--check" not in arguments:
            path.write_text(text)
        print(path.relative_to(ROOT))
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
