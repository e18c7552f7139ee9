"""Which endpoint is asked, and as whom."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from extproc.probes.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files, and whether the server is to be verified at all.

    ``ca_file`` replaces the system's authorities. ``cert_file`` and ``key_file`` are ours, for
    servers that demand one.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """The context for connections. Raises Misconfigured when a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            names = ", ".join(str(file) for file in (self.ca_file, self.cert_file) if file)
            raise Misconfigured(f"TLS: {names}: {error.strerror or error}") from None
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class Target:
    """An OpenAI-compatible server.

    ``base_url``: with or without ``/v1``. ``model``: what requests name; "" asks ``/v1/models``
    for the first. ``api_key_env``: the environment variable that holds the key; its value is read
    when requests are sent and stands nowhere else. ``headers``: sent with every request.
    ``extra``: fields that every generating request gets (``chat_template_kwargs``, ...).
    """

    base_url: str
    model: str = ""
    api_key_env: str = ""
    tls: ClientTls | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def root(self) -> str:
        """The URL under which ``/health`` and ``/v1`` stand. Raises Misconfigured."""
        return _checked(self.base_url).removesuffix("/v1")

    def key(self) -> str:
        """The key, "" when the target wants none. Raises Misconfigured when it is not set."""
        if not self.api_key_env:
            return ""
        value = os.environ.get(self.api_key_env, "").strip()
        if not value:
            raise Misconfigured(
                f"{self.api_key_env} is not set in the environment; it is named as the API key of "
                f"{self.root}"
            )
        if not value.isascii() or not value.isprintable():
            raise Misconfigured(f"{self.api_key_env} holds characters that no HTTP header takes")
        return value


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Misconfigured("base_url: is no URL; write http://host:port or .../v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise Misconfigured("base_url: write http://host:port or https://host, with or without /v1")
    if "@" in parts.netloc:
        raise Misconfigured(
            "base_url: holds a user or password; put the key into an environment variable and name "
            "it with api_key_env"
        )
    if parts.query or parts.fragment:
        raise Misconfigured("base_url: ends with a query or fragment; leave it out")
    return url.rstrip("/")
