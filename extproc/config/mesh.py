"""Settings of ``semantic-extproc render``: where units and sidecar are, and who is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from extproc.config.base import Model, Name, Seconds, address
from extproc.config.signals import Port

Label = Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z0-9]?[-A-Za-z0-9_.]*$")]
KubernetesName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]


def split(value: str) -> tuple[str, int]:
    """Host and port of "host:port", "[ip6]:port". Raises ValueError."""
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not Port.fullmatch(port) or int(port) > 65535:
        raise ValueError('write "host:port"')
    return host, int(port)


def is_ip(host: str) -> bool:
    """Whether ``host`` is an IP address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class HostModel(Model):
    """One host of a unit. ``"10.0.0.7:8000"`` alone is its address."""

    address: str = Field(description='"ip:port" or "name:port"; a name is looked up by Envoy')
    name: Name | Literal[""] = Field("", description="in evidence and /unit-health; its address")
    release: Name | Literal[""] = Field("", description="if it differs from the unit's")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"address": value} if isinstance(value, str) else value

    @field_validator("address")
    @classmethod
    def _check(cls, value: str) -> str:
        split(value)
        return value


class SidecarModel(Model):
    """How Envoy reaches the sidecar. Beside Envoy, the defaults are right."""

    addresses: list[str] = Field(
        [],
        description='one a worker: "host:port" or "unix:///path"; else those of server.workers',
    )
    health: str | None = Field(
        None, description='"ip:port" that answers /unit-health; default: admin.address'
    )
    ca_file: Path | None = Field(
        None, description="CA, as Envoy's machine has it, of a sidecar with TLS"
    )
    server_name: str = Field("", description="name in the sidecar's certificate")
    cert_file: Path | None = Field(None, description="Envoy's own, if the sidecar demands one")
    key_file: Path | None = Field(None, description="of cert_file")

    @field_validator("addresses")
    @classmethod
    def _addresses(cls, values: list[str]) -> list[str]:
        for value in values:
            if not value.startswith("unix:"):
                split(value)
            address(value, unix=True)
        return values

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        return self

    @field_validator("health")
    @classmethod
    def _health(cls, value: str | None) -> str | None:
        if value is not None and not is_ip(split(value)[0]):
            raise ValueError("write an IP address: Envoy looks up no name for a health check")
        return value


class RouteModel(Model):
    """Requests that one unit serves, with its fallback behind it."""

    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")] = Field(
        "llm", description="also of the cluster whose hosts are the units"
    )
    unit: Name | None = Field(None, description="who serves; default: the first unit")
    timeout: Seconds | None = Field(
        0, description="of a whole answer; 0: none, streams may last; null: as your route has it"
    )
    domains: list[str] = Field(["*"], description="standalone: Host headers")
    prefix: Annotated[str, Field(pattern="^/")] = Field("/", description="standalone: of the path")
    virtual_host: str = Field(
        "", description='istio: where the route is, such as "llm.example.com:80"; any without it'
    )
    route: Annotated[str, Field(pattern="^[^/]*(/[^/]+)?$")] = Field(
        "",
        description="istio: its name in the VirtualService; "
        'envoy-gateway: "namespace/name" of the HTTPRoute',
    )


class ShadowModel(Model):
    """A candidate that gets copies of requests; nobody sees its answers but the sidecar."""

    unit: Name | None = Field(None, description="who gets copies, in mode shadow")
    percent: Annotated[int, Field(ge=0, le=100)] = Field(
        10, description="of the requests; runtime key semantic.shadow_percent changes it"
    )


class IstioModel(Model):
    """Which of Istio's proxies are configured."""

    namespace: KubernetesName = Field("istio-system", description="where the EnvoyFilters are")
    context: Literal["gateway", "sidecar"] = Field(
        "gateway", description="a gateway, or the sidecar proxies of clients"
    )
    selector: dict[str, Label] = Field(
        {"istio": "ingressgateway"}, description="labels of these proxies"
    )


class EnvoyGatewayModel(Model):
    """Which of Envoy Gateway's Gateways is configured."""

    namespace: KubernetesName = Field("default", description="of the Gateway")
    gateway: KubernetesName = Field("eg", description="its name")
    listener: KubernetesName = Field("http", description="of the Gateway")
    service: KubernetesName = Field(
        "semantic-extproc", description="the sidecar's Service, for EnvoyExtensionPolicy"
    )


class MeshModel(Model):
    """What ``semantic-extproc render`` writes."""

    mode: Literal["two-tier", "observe", "shadow"] = Field(
        "two-tier",
        description="observe: copies only, no retry; shadow: two-tier, and copies to a candidate",
    )
    eject: bool = Field(
        True, description="quarantined and failing units lose their traffic; false: retry alone"
    )
    requests: Literal["hidden", "shown"] = Field(
        "hidden", description="shown: prompts go to the sidecar too, which forgets them"
    )
    listen: str = Field("127.0.0.1:10000", description="standalone: where clients connect")
    envoy_admin: str = Field("127.0.0.1:9901", description="standalone: Envoy's admin interface")
    sidecar: SidecarModel = SidecarModel()
    routes: Annotated[list[RouteModel], Field(min_length=1)] = Field([RouteModel()])
    shadow: ShadowModel = ShadowModel()
    istio: IstioModel = IstioModel()
    envoy_gateway: EnvoyGatewayModel = EnvoyGatewayModel()

    @field_validator("listen", "envoy_admin")
    @classmethod
    def _ip(cls, value: str) -> str:
        if not is_ip(split(value)[0]):
            raise ValueError('write "ip:port"; 0.0.0.0 for all interfaces')
        return value


def problems(mesh: MeshModel, units: Mapping[str, Sequence[HostModel]]) -> Iterator[str]:
    """What is wrong with settings that are right each by itself. ``units``: hosts by id."""
    names = [route.name for route in mesh.routes]
    for at, route in enumerate(mesh.routes):
        if (first := names.index(route.name)) != at:
            yield f"mesh.routes[{at}].name: {route.name!r} is the name of routes[{first}] already"
        if route.unit is not None and route.unit not in units:
            yield f"mesh.routes[{at}].unit: {route.unit!r} is no unit"
    if mesh.shadow.unit is not None and mesh.shadow.unit not in units:
        yield f"mesh.shadow.unit: {mesh.shadow.unit!r} is no unit"
    for at, hosts in enumerate(units.values()):
        seen: dict[str, int] = {}
        for index, host in enumerate(hosts):
            if (first := seen.setdefault(host.name or host.address, index)) != index:
                yield f"units[{at}].hosts[{index}]: is hosts[{first}] once more"
