"""Settings of what outlives the process, and of what several gateways share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from extproc.config.base import Model, readable


class StoreModel(Model):
    """Where states and evidence are kept."""

    kind: Literal["sqlite", "memory"] = Field(
        "sqlite", description="memory: all of it ends with the process"
    )
    path: Path | None = Field(
        None,
        description="the SQLite file, of this sidecar alone; default: semantic-extproc.db in "
        "$STATE_DIRECTORY (systemd), else in $XDG_STATE_HOME/semantic-extproc",
    )
    retention_days: Annotated[float, Field(gt=0, le=3650)] = Field(
        30, description="how long evidence is kept"
    )
    max_records: Annotated[int, Field(ge=100, le=10_000_000)] = Field(
        100_000, description="records of evidence kept at most"
    )


class SamplesModel(Model):
    """What of a corrupt response's text is kept with its evidence."""

    keep: Literal["nothing", "hash", "redacted"] = Field(
        "hash", description="hash: a keyed hash alone; redacted: also the end of the text, masked"
    )
    max_bytes: Annotated[int, Field(ge=64, le=16384)] = Field(
        2048, description="largest sample, after masking"
    )
    retention_hours: Annotated[float, Field(gt=0, le=24 * 365)] = Field(
        24, description="how long a sample is kept; the rest of its record stays longer"
    )
    key_file: Path | None = Field(
        None,
        description="the key of hashes, 16 bytes or more; default: made beside the store. Sidecars "
        "with one key have comparable hashes",
    )

    @field_validator("key_file")
    @classmethod
    def _long_enough(cls, path: Path | None) -> Path | None:
        if readable(path) is not None and path is not None and len(path.read_bytes().strip()) < 16:
            raise ValueError("holds less than 16 bytes")
        return path


class FleetModel(Model):
    """The view that several gateways share."""

    url: SecretStr = Field(
        SecretStr(""),
        description="redis://, rediss:// or unix://; of Redis or Valkey. Off without one",
    )
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:/-]{1,64}$")] = Field(
        "semantic-extproc", description="of keys; gateways with one prefix are one fleet"
    )
    ttl_seconds: Annotated[float, Field(ge=10, le=86400 * 30)] = Field(
        600, description="how long a state is shared that no gateway tells any more"
    )
    instance: Annotated[str, Field(max_length=128)] = Field(
        "", description="this sidecar's name among the others; default: host name and gRPC port"
    )

    @field_validator("url")
    @classmethod
    def _redis(cls, url: SecretStr) -> SecretStr:
        text = url.get_secret_value()
        if text:
            parts = urlsplit(text)
            whole = parts.path if parts.scheme == "unix" else parts.hostname
            if parts.scheme not in ("redis", "rediss", "unix") or not whole:
                raise ValueError("write redis://host:port, rediss://host:port or unix:///path")
        return url
