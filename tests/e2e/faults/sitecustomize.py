"""Faults for a process under test: Python imports this at start where it is on PYTHONPATH.

SIGUSR1 makes the main thread, hence the event loop, stand still. A file ``clock`` in the folder
that FAULTS names holds the seconds by which the wall clock is off.
"""

import os
import signal
import time
from pathlib import Path

_REAL = time.time
_CLOCK = Path(os.environ.get("FAULTS", "/nonexistent")) / "clock"


def _stand_still(*_: object) -> None:
    time.sleep(3600)


def _wrong_time() -> float:
    try:
        return _REAL() + float(_CLOCK.read_text())
    except (OSError, ValueError):
        return _REAL()


if "FAULTS" in os.environ:
    signal.signal(signal.SIGUSR1, _stand_still)
    time.time = _wrong_time
