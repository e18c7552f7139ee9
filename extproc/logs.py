"""Logging to standard error: JSON for machines, text for people.

Never prompt or response text: an exception is logged by its type and the places it passed, not by
its message, which may quote what was being read.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from types import TracebackType

_STANDARD = frozenset(vars(logging.makeLogRecord({})))

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class TextFormatter(logging.Formatter):
    """One line a record, and the places of an exception below it."""

    def formatException(self, ei: _ExcInfo) -> str:
        """Type and places; no message."""
        kind, _, trace = ei
        places = (
            f"  {frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(trace)
        )
        return "\n".join([kind.__name__ if kind else "no exception", *places])


class JsonFormatter(TextFormatter):
    """One JSON object a line: time, level, logger, message, and whatever ``extra`` brought."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        content.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


def configure(level: str, form: str, process: str = "") -> None:
    """Sets up the root logger. ``level`` and ``form`` as the settings ``log`` name them.
    ``process``: which of several processes writes, to be said in each record."""
    handler = logging.StreamHandler(sys.stderr)
    plain = "%(asctime)s %(levelname)s %(message)s"
    if process:
        plain = f"%(asctime)s %(levelname)s {process}: %(message)s"

        def mark(record: logging.LogRecord) -> bool:
            record.process_name = process
            return True

        handler.addFilter(mark)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(plain))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
