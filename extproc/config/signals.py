"""Settings of what goes out: webhooks and the xDS server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from extproc.config.base import Model, Name, TlsModel, address, check_secret
from extproc.units import ID

StateName = Literal["pass", "observe", "quarantine"]
Port = re.compile(r"[1-9][0-9]{0,4}")


class WebhookModel(Model):
    """One receiver of changes of state."""

    name: Name = Field(description="in logs and metrics, which do not show the URL")
    url: SecretStr = Field(description="http:// or https://; it may hold a key of its own")
    states: list[StateName] = Field([], description="changes to these states; all without any")
    units: list[str] = Field([], description="ids or patterns such as llama-*; all without any")
    verdicts: bool = Field(False, description="single corrupt verdicts as well")
    verifications: bool = Field(
        True, description="what is said of fallbacks: verified, withdrawn, lapsed"
    )
    secret_env: str = Field("", description="environment variable with the signing secret")
    secret_file: Path | None = Field(None, description="file with it; read again when it changes")
    timeout: Annotated[float, Field(gt=0, le=60)] = Field(5, description="seconds an attempt")
    attempts: Annotated[int, Field(ge=1, le=20)] = 8
    queue: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1000, description="records that may wait; the oldest is dropped"
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr) -> SecretStr:
        parts = urlsplit(url.get_secret_value())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("write http://... or https://...")
        return url

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        check_secret("secret", self.secret_env, self.secret_file)
        return self


class EndpointModel(Model):
    """One endpoint of a cluster."""

    address: str = Field(
        description='"ip:port", "envoy://internal-listener" or "unix:///absolute/path"'
    )
    unit: Name
    context_class: Name | None = Field(None, description="follow this class of the unit alone")
    host: Name | None = Field(None, description="follow this host of the unit alone")
    priority: Annotated[int, Field(ge=0, le=127)] = 0
    weight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    @field_validator("address")
    @classmethod
    def _check(cls, value: str) -> str:
        forms = 'write "ip:port", "envoy://internal-listener" or "unix:///absolute/path"'
        if value.startswith("envoy://"):
            if not ID.fullmatch(value.removeprefix("envoy://")):
                raise ValueError(forms)
            return value
        if value.startswith("unix:"):
            if not value.startswith("unix:///"):
                raise ValueError(forms)
            return value
        host, _, port = value.rpartition(":")
        if not Port.fullmatch(port) or int(port) > 65535:
            raise ValueError(forms)
        try:
            ip_address(host.removeprefix("[").removesuffix("]"))
        except ValueError:
            # Envoy refuses names from EDS: a cluster of type STRICT_DNS resolves them, not EDS.
            raise ValueError(f"{host!r} is no IP address; {forms}") from None
        return value

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if self.context_class and self.host:
            raise ValueError("context_class and host exclude each other")
        return self


class ClusterModel(Model):
    """One cluster whose endpoints Envoy takes from here."""

    name: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="service_name of Envoy's eds_cluster_config, or else the cluster's name"
    )
    endpoints: Annotated[list[EndpointModel], Field(min_length=1)]
    hard: Literal["unhealthy", "draining"] = Field(
        "unhealthy", description="what Envoy is told of an endpoint that is cut off"
    )

    @model_validator(mode="after")
    def _gapless(self) -> Self:
        found = {endpoint.priority for endpoint in self.endpoints}
        if found != set(range(len(found))):
            raise ValueError("priorities must be 0, 1, ... without a gap; Envoy refuses others")
        return self


class RuntimeKeyModel(Model):
    """One canary weight."""

    key: Annotated[str, Field(min_length=1, max_length=256)]
    unit: Name
    context_class: Name | None = Field(None, description="follow this class of the unit alone")
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = Field(description="while the unit passes")
    reentry: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        1,
        description="while it is observed after a quarantine; 0 lets it never come back by itself",
    )


class RuntimeModel(Model):
    """The RTDS layer with the canary weights."""

    layer: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        "semantic", description="name of Envoy's rtds_layer"
    )
    keys: Annotated[list[RuntimeKeyModel], Field(min_length=1)]


class XdsModel(Model):
    """The xDS server. It is off without an address."""

    address: str | None = Field(None, description='"host:port" or ":port"')
    tls: TlsModel | None = None
    clusters: list[ClusterModel] = Field([], description="served by EDS")
    runtime: RuntimeModel | None = Field(None, description="served by RTDS")

    @field_validator("address")
    @classmethod
    def _check(cls, value: str | None) -> str | None:
        return None if value is None else address(value, unix=False)


def problems(
    webhooks: list[WebhookModel], xds: XdsModel, units: list[str], classes: list[str]
) -> Iterator[str]:
    """What is wrong with settings that are right each by itself."""
    yield from _doubled("webhooks", "name", [hook.name for hook in webhooks])
    if xds.address is None and (xds.clusters or xds.runtime):
        yield "xds.address: is missing; nothing is served without it"
    if xds.address is not None and not xds.clusters and xds.runtime is None:
        yield "xds.address: there is nothing to serve; list clusters or runtime"
    yield from _doubled("xds.clusters", "name", [cluster.name for cluster in xds.clusters])
    keys = xds.runtime.keys if xds.runtime is not None else []
    yield from _doubled("xds.runtime.keys", "key", [entry.key for entry in keys])
    followers: list[tuple[str, EndpointModel | RuntimeKeyModel]] = [
        (f"xds.clusters[{at}].endpoints[{index}]", endpoint)
        for at, cluster in enumerate(xds.clusters)
        for index, endpoint in enumerate(cluster.endpoints)
    ]
    followers += [(f"xds.runtime.keys[{at}]", entry) for at, entry in enumerate(keys)]
    for place, follower in followers:
        if follower.unit not in units:
            yield f"{place}.unit: {follower.unit!r} is no unit"
        if follower.context_class is not None and follower.context_class not in classes:
            yield f"{place}.context_class: {follower.context_class!r} is no context class"


def _doubled(place: str, field: str, values: list[str]) -> Iterator[str]:
    for at, value in enumerate(values):
        if (first := values.index(value)) != at:
            yield f"{place}[{at}].{field}: {value!r} stands in {place}[{first}] already"
