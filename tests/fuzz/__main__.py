"""``python -m tests.fuzz TARGET... [--seconds N]``: coverage-guided fuzzing of the targets.

Needs the extra ``fuzz`` (atheris). Finds are written to .cache/fuzz/TARGET; what stays of value
goes into tests/fuzz/seeds/TARGET, which every test run replays.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SEEDS = Path(__file__).parent / "seeds"
FINDS = Path(".cache/fuzz")
LONGEST = 1 << 14
"""Bytes of an input: beyond every buffer's edge, and still a thousand inputs a second."""

SLOWEST = 10
"""Seconds that one input may take on a loaded machine; the slowest seed takes a hundredth."""

MEMORY = 2048
"""MiB of the whole process."""


def main() -> int:
    """Runs each target in a process of its own: libFuzzer ends its process when it ends."""
    targets = sorted(folder.name for folder in SEEDS.iterdir())
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", default=[], help=f"of {', '.join(targets)}; all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    known = parser.parse_args()
    if known.inside:
        _fuzz(known.inside, known.seconds)
        return 0
    if unknown := set(known.target) - set(targets):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are: {', '.join(targets)}")
    bad = 0
    for name in known.target or targets:
        print(f"== {name}, {known.seconds} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz", "--inside", name]
        bad |= subprocess.call([*command, "--seconds", str(known.seconds)])
    return 1 if bad else 0


def _fuzz(name: str, seconds: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["extproc"]):
        from tests.fuzz.targets import TARGETS
    finds = FINDS / name
    finds.mkdir(parents=True, exist_ok=True)
    options = [
        sys.argv[0],
        str(finds),
        str(SEEDS / name),
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MEMORY}",
        f"-artifact_prefix={finds}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup(options, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
