"""Files of recorded exchanges -> Exchange, or the Problem of a place that cannot be used.

Read are: JSON lines of exchanges, also gzipped; one exchange or a list of them as JSON; HAR
files; and bare bodies (an event stream, a JSON document, NDJSON). The name's suffix decides, and
where it says nothing the first line does.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Any

from extproc.inspection import Exchange
from extproc.plain import on_one_line
from extproc.wire.framing import BLANK, Framing, sniff

LONGEST = 256 << 20
"""Bytes of one line, or of a file that is one document; a gzip file may hold any number."""

_TOO_LONG = f"is longer than {LONGEST >> 20} MiB"

MAGIC = b"\x1f\x8b"
"""How a gzip file begins."""

LOOK_AHEAD = 20
"""Lines after the first in which an exchange shows what a file is whose name does not."""

UNTOLD = (
    "is neither JSON nor an event stream; what it is, its name must say: .jsonl, .har, .json, .sse "
    "or .ndjson"
)

_CONTENT_TYPES = {
    Framing.SSE: "text/event-stream",
    Framing.NDJSON: "application/x-ndjson",
    Framing.JSON: "application/json",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something in a file is no exchange: where (file:line), which field, and what is wrong."""

    where: str
    field: str
    what: str

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.where, self.field, self.what) if part)
        return on_one_line(said)


class _Unusable(Exception):
    def __init__(self, field: str, what: str) -> None:
        self.field = field
        self.what = what


def read_exchanges(name: str, file: IO[bytes]) -> Iterator[Exchange | Problem]:
    """What ``file`` holds, in its order. ``name`` is what it is called in ids and problems.

    ``file`` needs ``peek`` (any buffered reader). Nothing in the file makes this raise.
    """
    line = 0
    empty = True
    try:
        peek = getattr(file, "peek", None)
        if peek is not None and peek(2)[:2] == MAGIC:
            file = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
        lines = _lines(file)
        blank, before = 0, bytearray()
        while (first := next(lines, b"")) and not first.strip(BLANK):
            blank += 1
            before += first if len(before) <= LONGEST else b""
        line, begun = blank + 1, [first]
        kind = _named(name.removesuffix(".gz"))
        if not kind and (kind := _told(begun[-1])) in ("", "json"):
            # The first line may be broken, and the rest not.
            for text in islice(lines, LOOK_AHEAD):
                begun.append(text)
                if sum(map(len, begun)) > LONGEST:
                    break
            kind = "lines" if any(_told(text) == "lines" for text in begun) else kind
        if not kind and first:
            empty = False
            yield Problem(name, "", UNTOLD)
            return
        if kind == "lines":
            for line, text in enumerate(chain(begun, lines), blank + 1):
                if text.strip(BLANK):
                    empty = False
                    yield _line(f"{name}:{line}", text)
        elif first:
            empty = False
            yield from _document(name, kind, b"".join([before, *begun, file.read(LONGEST)]))
    except (OSError, EOFError, zlib.error) as error:
        empty = False
        yield Problem(f"{name}:{line + 1}", "", f"cannot be read: {error}")
    if empty:
        yield Problem(name, "", "holds no exchange")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines; of one that is too long, as much as tells so."""
    while line := file.readline(LONGEST + 1):
        yield line
        while len(line) > LONGEST and not line.endswith(b"\n"):
            line = file.readline(LONGEST + 1)


def _named(name: str) -> str:
    """What a file is by its name, "" where that says nothing."""
    for suffix in ("jsonl", "sse", "har", "ndjson", "json"):
        if name.lower().endswith(f".{suffix}"):
            return "lines" if suffix == "jsonl" else suffix
    return ""


def _told(line: bytes) -> str:
    """What a file is by a line of it, "" where that says nothing."""
    start = line.lstrip(BLANK)
    if sniff(start, Framing.JSON, True) is Framing.SSE:
        return "sse"
    if start and not start.startswith((b"{", b"[")):
        return ""
    try:
        value = json.loads(start)
    except (ValueError, RecursionError):
        return "lines" if b'"request"' in start and b'"response"' in start else "json"
    if type(value) is not dict or "log" in value:
        return "json"
    # Ollama's bodies have a "response", too, which is text.
    both = "request" in value and "response" in value
    parts = (value.get("request"), value.get("response"))
    return "lines" if both or any(type(part) is dict for part in parts) else "json"


def _line(where: str, text: bytes) -> Exchange | Problem:
    try:
        return _exchange(where, _json(text.rstrip(BLANK)))
    except _Unusable as error:
        return Problem(where, error.field, error.what)


def _document(name: str, kind: str, data: bytes) -> Iterator[Exchange | Problem]:
    """The exchanges of a file that is one document, or one body."""
    if len(data) > LONGEST:
        yield Problem(name, "", _TOO_LONG)
        return
    value: Any = None
    if kind in ("har", "json"):
        try:
            value = _json(data)
        except _Unusable as error:
            if kind == "har":
                yield Problem(name, error.field, error.what)
                return
    if kind == "har" or (type(value) is dict and "log" in value):
        yield from _har(name, value)
    elif type(value) is dict and "request" in value and "response" in value:
        yield _checked(name, value)
    elif type(value) is list and value and all(_is_exchange(item) for item in value):
        for index, item in enumerate(value):
            yield _checked(f"{name}[{index}]", item)
    else:
        declared = {"sse": Framing.SSE, "ndjson": Framing.NDJSON}.get(kind, Framing.JSON)
        yield Exchange(name, "", data, headers={"content-type": _CONTENT_TYPES[declared]})


def _is_exchange(value: Any) -> bool:
    return type(value) is dict and "request" in value and "response" in value


def _checked(where: str, value: Any) -> Exchange | Problem:
    try:
        return _exchange(where, value)
    except _Unusable as error:
        return Problem(where, error.field, error.what)


def _json(data: bytes) -> Any:
    if len(data) > LONGEST:
        raise _Unusable("", _TOO_LONG)
    try:
        return json.loads(data.lstrip(BLANK).decode())
    except UnicodeDecodeError as error:
        raise _Unusable("", f"is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise _Unusable("", f"is not JSON (line {error.lineno}, column {error.colno})") from None
    except (RecursionError, ValueError):
        raise _Unusable("", "is JSON that nests too deeply or holds too long a number") from None


def _exchange(where: str, value: Any) -> Exchange:
    """An exchange from its fields. Raises _Unusable, naming the first field that will not do."""
    if type(value) is not dict:
        raise _Unusable("", "must be an object")
    request = _field(value, "", "request", dict)
    response = _field(value, "", "response", dict)
    known = value.get("id", where)
    if type(known) not in (str, int):
        raise _Unusable("id", "must be a string or an integer")
    status = _field(response, "response.", "status", int)
    if not 100 <= status <= 599:
        raise _Unusable("response.status", "must be within 100 and 599")
    method = request.get("method", "POST")
    if type(method) is not str:
        raise _Unusable("request.method", "must be a string")
    return Exchange(
        id=known,
        path=_field(request, "request.", "path", str),
        body=_body(response),
        method=method,
        status=status,
        headers=_headers(response.get("headers")),
        request_body=_request_body(request),
    )


_NAMES = {dict: "an object", str: "a string", int: "an integer"}


def _field(owner: dict[str, Any], place: str, name: str, kind: type) -> Any:
    if name not in owner:
        raise _Unusable(f"{place}{name}", "is missing")
    if type(owner[name]) is not kind:
        raise _Unusable(f"{place}{name}", f"must be {_NAMES[kind]}")
    return owner[name]


def _body(response: dict[str, Any]) -> bytes:
    if "body_b64" in response:
        return _base64(_field(response, "response.", "body_b64", str), "response.body_b64")
    if "body" not in response:
        raise _Unusable("response.body", "is missing, and so is body_b64")
    return _bytes(_field(response, "response.", "body", str))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _base64(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _Unusable(field, "is not base64") from None


def _headers(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if type(value) is not dict:
        raise _Unusable("response.headers", "must be an object")
    for name, content in value.items():
        if type(content) is not str:
            raise _Unusable(f"response.headers.{name}", "must be a string")
    return {name.lower(): content for name, content in value.items()}


def _request_body(request: dict[str, Any]) -> object:
    body = request.get("body")
    if body is None and type(request.get("body_b64")) is str:
        body = _base64(request["body_b64"], "request.body_b64").decode(errors="replace")
    return _loaded(body) if type(body) is str else body


def _loaded(text: str) -> object:
    """A request body that is JSON in a string; one that is no JSON (a form) is a string still."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _har(name: str, value: Any) -> Iterator[Exchange | Problem]:
    """HTTP Archive 1.2: bodies stand there decoded, their content-encoding is history."""
    log = value.get("log") if type(value) is dict else None
    entries = log.get("entries") if type(log) is dict else None
    if type(entries) is not list:
        yield Problem(name, "log.entries", "must be a list")
        return
    for index, entry in enumerate(entries):
        where = f"{name}#{index}"
        try:
            yield _har_entry(where, entry)
        except _Unusable as error:
            yield Problem(where, error.field, error.what)


def _har_entry(where: str, entry: Any) -> Exchange:
    if type(entry) is not dict:
        raise _Unusable("", "must be an object")
    request = _field(entry, "", "request", dict)
    response = _field(entry, "", "response", dict)
    content = _field(response, "response.", "content", dict)
    text = content.get("text", "")
    if type(text) is not str:
        raise _Unusable("response.content.text", "must be a string")
    given = response.get("headers") or []
    if type(given) is not list:
        raise _Unusable("response.headers", "must be a list")
    headers = {
        header["name"].lower(): header["value"]
        for header in given
        if type(header) is dict and type(header.get("name")) is type(header.get("value")) is str
    }
    headers.pop("content-encoding", None)
    if type(content.get("mimeType")) is str:
        headers.setdefault("content-type", content["mimeType"])
    posted = request.get("postData")
    sent = posted.get("text") if type(posted) is dict else None
    status = _field(response, "response.", "status", int)
    return Exchange(
        id=where,
        path=_path(_field(request, "request.", "url", str)),
        body=_base64(text, "response.content.text")
        if content.get("encoding") == "base64"
        else _bytes(text),
        method=method if type(method := request.get("method")) is str else "POST",
        status=status,
        headers=headers,
        request_body=_loaded(sent) if type(sent) is str and sent else None,
    )


def _path(url: str) -> str:
    _, scheme, rest = url.partition("://")
    if not scheme:
        return url
    _, slash, path = rest.partition("/")
    return (slash + path).partition("#")[0]
