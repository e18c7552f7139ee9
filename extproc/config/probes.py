"""Settings of active probes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from extproc.config.base import Model, readable
from extproc.config.golden import load_golden

KindName = Literal["golden", "chat", "long", "json", "tools", "logprobs", "embedding"]


class BudgetModel(Model):
    """What probes of all units together may spend in each window, and never more."""

    requests: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        200, description="that make an engine compute"
    )
    tokens: Annotated[int, Field(ge=1, le=1_000_000_000)] = Field(
        250_000, description="of prompts and answers"
    )
    seconds: Annotated[float, Field(gt=0, le=864_000)] = Field(900, description="they take")
    window: Annotated[float, Field(ge=1, le=86_400)] = Field(3600, description="seconds")


class ProbesModel(Model):
    """Active probes. They are off while no unit has a ``probe``."""

    interval: Annotated[float, Field(ge=1, le=86_400)] = Field(
        60, description="seconds between two samples while nothing is the matter"
    )
    timeout: Annotated[float, Field(ge=0.1, le=3600)] = Field(60, description="seconds a request")
    budget: BudgetModel = BudgetModel()
    long_tokens: Annotated[int, Field(ge=256, le=2_000_000)] = Field(
        8192, description="what a long context is filled to, where class and model allow it"
    )
    golden: Path | None = Field(
        None, description='file of golden prompts; without it "Reply with exactly: OK"'
    )
    first_pause: Annotated[float, Field(ge=1, le=86_400)] = Field(
        30, description="seconds after which a failed recovery is tried again; doubled each time"
    )
    longest_pause: Annotated[float, Field(ge=1, le=86_400)] = Field(
        600, description="seconds to which those pauses grow"
    )
    lease: Annotated[float, Field(ge=2, le=3600)] = Field(
        30, description="seconds after which another sidecar of the fleet takes over"
    )
    seed: int = Field(0, description="of the order of samples, and of the filler")

    @field_validator("golden")
    @classmethod
    def _golden(cls, path: Path | None) -> Path | None:
        if path is not None:
            load_golden(path)
        return path


class ProbeTlsModel(Model):
    """PEM files of a client."""

    ca_file: Path | None = Field(None, description="authorities, in the place of the system's")
    cert_file: Path | None = Field(None, description="our own, where the server demands one")
    key_file: Path | None = Field(None, description="the key of cert_file")
    verify: bool = Field(True, description="false: any certificate will do")

    @field_validator("ca_file", "cert_file", "key_file")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        return readable(path)


class ProbeModel(Model):
    """Where one unit is probed: straight at its engine, past the gateway."""

    base_url: str = Field(description="OpenAI-compatible, with or without /v1")
    model: Annotated[str, Field(max_length=256)] = Field(
        "", description="name in requests; without it the first that is served"
    )
    api_key_env: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")] = Field(
        "", description="environment variable with the API key"
    )
    tls: ProbeTlsModel | None = None
    headers: dict[str, str] = Field({}, description="sent with every request")
    extra: dict[str, Any] = Field({}, description="fields of every generating request")
    kinds: list[KindName] = Field([], description="all without any")

    @field_validator("base_url")
    @classmethod
    def _http(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            raise ValueError("write http://host:port, with or without /v1") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("write http://host:port, with or without /v1")
        if "@" in parts.netloc:
            raise ValueError("holds a user or password; name the key's variable in api_key_env")
        if parts.query or parts.fragment:
            raise ValueError("ends with a query or fragment; leave it out")
        return url

    @model_validator(mode="after")
    def _both(self) -> ProbeModel:
        tls = self.tls
        if tls is not None and (tls.cert_file is None) != (tls.key_file is None):
            raise ValueError("tls.cert_file and tls.key_file belong together")
        return self
