"""What all models of settings are made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from extproc.tls import Tls
from extproc.units import ID


class Model(BaseModel):
    """A group of settings: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Name = Annotated[str, Field(pattern=f"^{ID.pattern}$", max_length=128)]
Seconds = Annotated[float, Field(ge=0, le=86400)]
Bytes = Annotated[int, Field(gt=0)]


class TlsModel(Model):
    """PEM files; new connections get what replaces them."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = Field(None, description="demand client certificates signed by it")

    @property
    def files(self) -> Tls:
        """The same, as a server takes them."""
        return Tls(self.cert_file, self.key_file, self.client_ca_file)

    @field_validator("cert_file", "key_file", "client_ca_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        return readable(path)


def readable(path: Path | None) -> Path | None:
    """``path`` if its file can be read. Raises ValueError."""
    if path is not None:
        try:
            path.read_bytes()
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None
    return path


def check_secret(name: str, variable: str, file: Path | None) -> None:
    """That a secret given by ``<name>_env`` or ``<name>_file`` is there. Raises ValueError."""
    if variable and file:
        raise ValueError(f"{name}_env and {name}_file exclude each other")
    if variable and not os.environ.get(variable):
        raise ValueError(f"{name}_env: {variable} is not set in the environment")
    if file and (readable(file) or file).read_bytes().strip() == b"":
        raise ValueError(f"{name}_file: the file is empty")


def address(value: str, unix: bool) -> str:
    """``value`` if a server can listen on it. Raises ValueError."""
    if unix and value.startswith("unix:"):
        if not value.startswith("unix:///"):
            raise ValueError('a Unix socket is written "unix:///absolute/path"')
        return value
    _, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        forms = '"host:port" or ":port"' + (' or "unix:///path"' if unix else "")
        raise ValueError(f"write {forms}")
    return value
