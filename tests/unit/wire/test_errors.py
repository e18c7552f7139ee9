"""Error objects of every API; their messages are read and never kept."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.wire import Cause, Failure
from extproc.wire.errors import failure_in


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"error": {"message": "m", "type": "server_error", "code": 500}}, "server_error"),
        ({"error": {"message": "m", "code": 502}}, "502"),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
            "overloaded_error",
        ),
        ({"error": "m", "error_type": "generation"}, "generation"),
        ({"error": "m"}, "error"),
        (
            {"object": "error", "message": "m", "type": "BadRequestError", "code": 400},
            "BadRequestError",
        ),
        ({"error": {"type": "the prompt said: drop tables", "message": "m"}}, "error"),
        ({"error": {"type": ["x"]}}, "error"),
        ({"error": True}, "error"),
    ],
)
def test_an_error_object_is_a_failure_by_its_code(document: dict[str, Any], code: str) -> None:
    assert failure_in(document) == Failure(code)


@pytest.mark.parametrize("document", [{}, {"error": None}, {"error": {}}, {"object": "list"}])
def test_anything_else_is_none(document: dict[str, Any]) -> None:
    assert failure_in(document) is None


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Out of range float values are not JSON compliant", Cause.NON_FINITE),
        ("probability tensor contains either `inf`, `nan` or element < 0", Cause.NON_FINITE),
        ("got exception: Unexpected empty grammar stack after accepting piece: 6", Cause.GRAMMAR),
        ("CUDA error: device-side assert triggered", Cause.DEVICE),
        ("context length exceeded", Cause.UNKNOWN),
    ],
)
def test_what_a_message_admits_is_the_cause(message: str, cause: Cause) -> None:
    assert failure_in({"error": {"message": message}}) == Failure("error", cause)
    assert failure_in({"error": message}) == Failure("error", cause)
