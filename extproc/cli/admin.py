"""How commands talk to a running sidecar's admin API."""

from __future__ import annotations

import getpass
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import IO, Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

import typer

from extproc.plain import without_user

ENVIRONMENT = "SEMANTIC_EXTPROC_ADMIN_URL"
"""Not SEMANTIC_EXTPROC_ADMIN: that would be the setting ``admin`` of a sidecar."""

TOKEN = "SEMANTIC_EXTPROC_ADMIN_TOKEN"
"""The token that changes need where admin.token_env or admin.token_file is set."""

CA, CERT, KEY = (f"SEMANTIC_EXTPROC_ADMIN_{name}" for name in ("CA_FILE", "CERT_FILE", "KEY_FILE"))
"""PEM files, for a sidecar whose admin port speaks TLS."""

DEFAULT = "http://127.0.0.1:18081"
SECONDS = 5.0
COMPLETION_SECONDS = 0.5

Admin: Any = typer.Option(
    DEFAULT,
    "--admin",
    envvar=ENVIRONMENT,
    metavar="URL",
    help="The sidecar's admin address. Its token and certificates come from the environment "
    "(docs/operations.md).",
)


class Unreachable(Exception):
    """No sidecar answered. The text says what to do about it."""


class Refused(Exception):
    """The sidecar answered, and said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text or f"HTTP {status}")
        self.status = status


class Api:
    """The API under ``url``. Methods raise Unreachable or Refused."""

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        self.url = url.rstrip("/") if "://" in url else f"http://{url.rstrip('/')}"
        self._seconds = seconds
        self._opener: OpenerDirector | None = None
        self._token = os.environ.get(TOKEN, "").strip()

    def get(self, path: str) -> Any:
        """The JSON at ``path``."""
        return self._ask(path, None)

    def post(self, path: str, content: Mapping[str, str | float]) -> Any:
        """The JSON that a POST of ``content`` is answered with."""
        return self._ask(path, json.dumps(content).encode())

    def lines(self, path: str, content: dict[str, Any], seconds: float) -> Iterator[Any]:
        """The JSON lines that a POST is answered with, as they come; each within ``seconds``."""
        body = json.dumps(content).encode()
        with self._answer(path, body, seconds) as answer:
            for line in answer:
                if line.strip():
                    yield json.loads(line)

    def unit(self, unit: str, word: str = "") -> str:
        """The path of a unit, or of one of an operator's words on it."""
        return f"/api/units/{quote(unit, safe='')}" + (f"/{word}" if word else "")

    def _ask(self, path: str, body: bytes | None) -> Any:
        with self._answer(path, body, self._seconds) as answer:
            return json.loads(answer.read())

    @contextmanager
    def _answer(self, path: str, body: bytes | None, seconds: float) -> Iterator[IO[bytes]]:
        """An open answer; what goes wrong while it is read is translated as well."""
        try:
            request = Request(self.url + path, body, {"Content-Type": "application/json"})
            if self._token:
                request.add_unredirected_header("Authorization", f"Bearer {self._token}")
            if self._opener is None:
                # The admin API is inside: a proxy for the outside has no business with it.
                tls = _tls() if self.url.startswith("https:") else None
                self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=tls))
            with self._opener.open(request, timeout=seconds) as answer:
                yield answer
        except HTTPError as error:
            with error:
                text = error.read(2000).decode(errors="replace").strip()
            raise Refused(error.code, text) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            said = getattr(reason, "strerror", None) or plain(str(reason))
            raise Unreachable(
                f"no sidecar answers at {without_user(self.url)} ({said})\n"
                f"Is it running, and is that its admin.address? Name another with --admin URL or "
                f"{ENVIRONMENT}."
            ) from None


def plain(text: str) -> str:
    """What a server said, as far as a terminal may show it: a gRPC port answers in bytes."""
    if text.isprintable():
        return text
    return "the answer is no HTTP/1.1: is that the address of grpc.address?"


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=os.environ.get(CA) or None)
    if cert := os.environ.get(CERT):
        context.load_cert_chain(cert, os.environ.get(KEY) or None)
    return context


def leave(problem: Unreachable | Refused) -> NoReturn:
    """Says the problem and exits: 2 when nobody answered, 1 when the sidecar said no."""
    typer.echo(f"semantic-extproc: {problem}", err=True)
    raise typer.Exit(2 if isinstance(problem, Unreachable) else 1)


def operator() -> str:
    """Who runs the command, for the record; "" where the system does not know."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def unit_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of unit ids, from the sidecar if it answers quickly."""
    url = context.params.get("admin") or os.environ.get(ENVIRONMENT) or DEFAULT
    try:
        units = Api(url, COMPLETION_SECONDS).get("/api/units")["units"]
        return [unit["id"] for unit in units if unit["id"].startswith(incomplete)]
    except Exception:
        return []  # a shell that completes must not be shown a traceback
