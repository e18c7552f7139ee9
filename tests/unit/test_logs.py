"""Logs are one JSON object a line and quote nothing that was being read."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from extproc.logs import JsonFormatter, TextFormatter

SECRET = "the-client's-own-words"


def record() -> logging.LogRecord:
    nothing: dict[str, str] = {}
    try:
        print(nothing[SECRET])
    except KeyError:
        raised = sys.exc_info()
    return logging.LogRecord("x", logging.ERROR, __file__, 1, "it failed", (), raised)


def test_a_record_is_one_line_of_json_with_its_extras() -> None:
    made = logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": "a\nb", "unit": "u"})
    line = JsonFormatter().format(made)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["message"], found["unit"], found["level"]) == ("a\nb", "u", "info")


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter("%(message)s")])
def test_an_exception_is_told_by_type_and_place_not_by_its_message(
    formatter: logging.Formatter,
) -> None:
    text = formatter.format(record())
    assert "KeyError" in text
    assert "test_logs.py" in text
    assert SECRET not in text
