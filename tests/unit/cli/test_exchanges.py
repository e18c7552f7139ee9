"""Files of exchanges: every format, and every way to be unusable."""

from __future__ import annotations

import base64
import gzip
import io
import json
from typing import Any

import pytest

from extproc.cli.exchanges import Problem, read_exchanges
from extproc.inspection import Exchange

GOOD: dict[str, Any] = {
    "id": "a",
    "request": {"method": "POST", "path": "/v1/chat/completions", "body": {"n": 1}},
    "response": {"status": 200, "headers": {"Content-Type": "application/json"}, "body": "é"},
    "label": "ignored",
}
READ = Exchange(
    "a",
    "/v1/chat/completions",
    "é".encode(),
    headers={"content-type": "application/json"},
    request_body={"n": 1},
)


def read(name: str, data: bytes) -> list[Exchange | Problem]:
    return list(read_exchanges(name, io.BufferedReader(io.BytesIO(data))))


def line(**changes: Any) -> bytes:
    """GOOD with changes; a value of ... drops the field. ``response__body`` reaches inside."""
    value = json.loads(json.dumps(GOOD))
    for path, change in changes.items():
        *owners, field = path.split("__")
        owner = value
        for name in owners:
            owner = owner[name]
        if change is ...:
            del owner[field]
        else:
            owner[field] = change
    return json.dumps(value).encode() + b"\n"


@pytest.mark.parametrize("name", ["x.jsonl", "stdin", "x.jsonl.gz", "x.log"])
def test_lines_are_exchanges(name: str) -> None:
    data = b"\xef\xbb\xbf" + line() + b"\r\n\n" + line(id=7)
    for packed in (data, gzip.compress(data)):
        first, second = read(name, packed)
        assert first == READ
        assert isinstance(second, Exchange)
        assert second.id == 7


def test_a_body_in_base64_is_decoded() -> None:
    text = base64.b64encode(b"\xff\x00").decode()
    (exchange,) = read("x.jsonl", line(response__body=..., response__body_b64=text))
    assert isinstance(exchange, Exchange)
    assert exchange.body == b"\xff\x00"


def test_a_missing_id_is_the_place() -> None:
    (exchange,) = read("x.jsonl", line(id=...))
    assert isinstance(exchange, Exchange)
    assert exchange.id == "x.jsonl:1"


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (b"{nonsense\n", ""),
        (b"[]\n", ""),
        (b"\xff\xfe{}\n", ""),
        (b"[" * 100_000 + b"\n", ""),
        (line(id=[1]), "id"),
        (line(request=...), "request"),
        (line(request="POST /"), "request"),
        (line(request__path=...), "request.path"),
        (line(request__method=3), "request.method"),
        (line(response=...), "response"),
        (line(response__status="200"), "response.status"),
        (line(response__status=7), "response.status"),
        (line(response__status=True), "response.status"),
        (line(response__body=...), "response.body"),
        (line(response__body=None), "response.body"),
        (line(response__headers=[]), "response.headers"),
        (line(response__headers={"x": 1}), "response.headers.x"),
        (line(response__body_b64="?"), "response.body_b64"),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_the_rest_is_read(bad: bytes, field: str) -> None:
    first, problem, last = read("x.jsonl", line() + bad + line())
    assert first == last == READ
    assert isinstance(problem, Problem)
    assert (problem.where, problem.field) == ("x.jsonl:2", field)
    assert str(problem).startswith("x.jsonl:2: ")


def test_a_truncated_gzip_file_gives_what_it_has() -> None:
    data = gzip.compress(b"".join(line(id=i, response__body="x" * i) for i in range(2000)))
    found = read("x.jsonl.gz", data[: len(data) // 2])
    assert isinstance(found[0], Exchange)
    assert isinstance(found[-1], Problem)


def test_nothing_at_all_is_a_problem() -> None:
    for data in (b"", b"\n\n"):
        (problem,) = read("x.jsonl", data)
        assert isinstance(problem, Problem)


@pytest.mark.parametrize(
    "data", [b"# Notes\n\nSome words.\n", b"\x89PNG\r\n\x1a\n\0", b"upstream error"]
)
@pytest.mark.parametrize("name", ["README.md", "stdin"])
def test_what_is_no_recording_is_a_problem_not_a_corrupt_answer(name: str, data: bytes) -> None:
    (problem,) = read(name, data)
    assert isinstance(problem, Problem)
    assert ".jsonl" in problem.what
    assert isinstance(read("x.json", data)[0], Exchange)


def test_a_broken_first_line_does_not_hide_that_lines_follow() -> None:
    found = read("stdin", b"\n{broken\n# nonsense\n" + line(id="a") + line(id="b"))
    assert [getattr(item, "where", None) for item in found[:2]] == ["stdin:2", "stdin:3"]
    assert [item.id for item in found[2:] if isinstance(item, Exchange)] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "data", "content_type"),
    [
        ("x.sse", b"data: {}\n\n", "text/event-stream"),
        ("stdin", b"event: x\ndata: {}\n\n", "text/event-stream"),
        ("x.json", b'{"choices": []}', "application/json"),
        ("x.json", b'{\n "choices": [NaN\n', "application/json"),
        ("stdin", b'{"done": false}\n{"done": true}\n', "application/json"),
        ("x.ndjson", b'{"done": false}\n{"done": true}\n', "application/x-ndjson"),
        ("stdin", b'{"response": "a", "done": false}\n{"response": ""}\n', "application/json"),
        ("stdin", b'\n{"choices": []}\n', "application/json"),
    ],
)
def test_a_bare_body_is_an_exchange_without_a_path(
    name: str, data: bytes, content_type: str
) -> None:
    for packed in (data, gzip.compress(data)):
        assert read(name, packed) == [
            Exchange(name, "", data, headers={"content-type": content_type})
        ]


def test_exchanges_in_one_json_document() -> None:
    assert read("x.json", json.dumps(GOOD, indent=1).encode()) == [READ]
    first, second = read("x.json", json.dumps([GOOD, {"request": 1, "response": 2}]).encode())
    assert first == READ
    assert second == Problem("x.json[1]", "request", "must be an object")


def test_a_har_file_gives_its_entries() -> None:
    def entry(**content: Any) -> dict[str, Any]:
        return {
            "request": {
                "method": "POST",
                "url": "https://api.example/v1/chat/completions?x=1#y",
                "postData": {"text": '{"n": 1}'},
            },
            "response": {
                "status": 200,
                "headers": [{"name": "Content-Encoding", "value": "gzip"}],
                "content": {"mimeType": "application/json", **content},
            },
        }

    entries = [
        entry(text="{}"),
        entry(text=base64.b64encode(b"{ }").decode(), encoding="base64"),
        entry(text="?", encoding="base64"),
        "no entry",
    ]
    data = json.dumps({"log": {"version": "1.2", "entries": entries}}).encode()
    for name in ("x.har", "x.json", "stdin"):
        first, second, third, fourth = read(name, data)
        assert first == Exchange(
            f"{name}#0",
            "/v1/chat/completions?x=1",
            b"{}",
            headers={"content-type": "application/json"},
            request_body={"n": 1},
        )
        assert isinstance(second, Exchange)
        assert second.body == b"{ }"
        assert third == Problem(f"{name}#2", "response.content.text", "is not base64")
        assert fourth == Problem(f"{name}#3", "", "must be an object")


def test_a_har_file_without_entries_is_a_problem() -> None:
    for data in (b"{}", b'{"log": 1}', b"nonsense"):
        (problem,) = read("x.har", data)
        assert isinstance(problem, Problem)


DEEP = b'{"request":' * 100_000


@pytest.mark.parametrize("name", ["x", "x.json", "x.jsonl", "x.har", "x.sse", "x.ndjson"])
@pytest.mark.parametrize(
    "data", [DEEP, b"[" * 100_000, b"9" * 5000, bytes(100), b"\xff\xfe\x00", b"\x1f\x8b\x08\xff"]
)
def test_no_file_makes_reading_raise(name: str, data: bytes) -> None:
    assert read(name, data)


@pytest.mark.parametrize("headers", [5, "x", {"name": "a", "value": "b"}])
def test_headers_of_an_archive_are_a_list(headers: object) -> None:
    response = {"status": 200, "headers": headers, "content": {"text": "x"}}
    entry = {"request": {"url": "http://x/y"}, "response": response}
    (found,) = read("x.har", json.dumps({"log": {"entries": [entry]}}).encode())
    assert str(found) == "x.har#0: response.headers: must be a list"


def test_what_is_no_string_in_an_archive_is_left_out() -> None:
    deep = json.loads("[" * 900 + "]" * 900)
    response = {
        "status": 200,
        "headers": [{"name": deep, "value": "x"}, {"name": "A", "value": deep}, 5],
        "content": {"text": "x"},
    }
    entry = {"request": {"url": "http://x/y", "method": deep}, "response": response}
    (found,) = read("x.har", json.dumps({"log": {"entries": [entry]}}).encode())
    assert isinstance(found, Exchange)
    assert (found.method, found.headers) == ("POST", {})


def test_a_line_without_end_is_told_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extproc.cli.exchanges.LONGEST", 4096)
    asked: list[int] = []

    class File(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().readline(size)

    long = b'{"id": "' + b"x" * 50_000 + b'"}\n'
    found = list(read_exchanges("x.jsonl", File(line() + long + line())))
    assert [type(item) for item in found] == [Exchange, Problem, Exchange]
    assert str(found[1]).startswith("x.jsonl:2: is longer than")
    assert set(asked) == {4097}
    for name in ("x.json", "x.sse", "x.har"):
        (problem,) = read(name, b"data: " + b"x" * 9000)
        assert "is longer than" in str(problem)


def test_a_problem_moves_no_cursor() -> None:
    headers = {"\x1b]0;title\x07\ud800\n": 1}
    (found,) = read("\x1b[31m.jsonl", line(response__headers=headers))
    assert str(found).isprintable()


def test_a_file_that_cannot_be_read_is_told() -> None:
    class Broken(io.BytesIO):
        def peek(self, size: int) -> bytes:
            raise OSError(5, "Input/output error")

    (found,) = read_exchanges("x", Broken())
    assert "cannot be read" in str(found)
