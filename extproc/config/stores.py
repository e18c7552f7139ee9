"""Settings of what outlives the process, and of what several gateways share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from extproc.config.base import Model


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
