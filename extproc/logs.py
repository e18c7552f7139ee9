"""Logging to standard error: JSON for machines, text for people. Never prompt or response text."""

from __future__ import annotations

import json
import logging
import sys
import time

_STANDARD = frozenset(vars(logging.makeLogRecord({})))


class JsonFormatter(logging.Formatter):
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
            content["exception"] = self._trace(record)
        return json.dumps(content, default=str)

    def _trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


def configure(level: str, form: str) -> None:
    """Sets up the root logger. ``level`` and ``form`` as the settings ``log`` name them."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
