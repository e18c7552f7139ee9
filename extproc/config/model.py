"""Every setting: its name, type, default and meaning. Nothing else is a setting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from extproc.config.base import Bytes, Name, Seconds, TlsModel, check_secret
from extproc.config.base import Model as _Model
from extproc.config.base import address as _address
from extproc.config.judging import JudgingModel
from extproc.config.mesh import HostModel, Label, MeshModel
from extproc.config.mesh import problems as mesh_problems
from extproc.config.probes import ProbeModel, ProbesModel
from extproc.config.server import ServerModel
from extproc.config.server import problems as server_problems
from extproc.config.signals import WebhookModel, XdsModel
from extproc.config.signals import problems as signal_problems
from extproc.config.stores import FleetModel, SamplesModel, StoreModel
from extproc.detect import Policy
from extproc.units import Unit
from extproc.wire import DIALECTS


class GrpcModel(_Model):
    """The ext_proc server that Envoy talks to."""

    address: str = Field("127.0.0.1:18080", description='"host:port", ":port" or "unix:///path"')
    unix_mode: Annotated[str, Field(pattern="^0?[0-7]{3}$")] = Field(
        "0660", description="permissions of the Unix socket, octal"
    )
    tls: TlsModel | None = None
    max_message_bytes: Bytes = Field(256 << 20, description="largest message taken from Envoy")
    max_connection_age: Seconds = Field(0, description="seconds; 0 keeps connections for ever")
    drain_seconds: Seconds = Field(
        30, description="seconds that open streams get to end after SIGTERM"
    )

    @field_validator("address")
    @classmethod
    def _check(cls, value: str) -> str:
        return _address(value, unix=True)


class AdminModel(_Model):
    """The HTTP server for metrics, health checks and the API."""

    address: str = Field("127.0.0.1:18081", description='"host:port" or ":port"')
    tls: TlsModel | None = None
    token_env: str = Field("", description="environment variable with the token that writes need")
    token_file: Path | None = Field(None, description="file with it; read again when it changes")

    @field_validator("address")
    @classmethod
    def _check(cls, value: str) -> str:
        return _address(value, unix=False)

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        check_secret("token", self.token_env, self.token_file)
        return self


class HoldModel(_Model):
    """How long response headers may be withheld."""

    enabled: bool = Field(True, description="false: only watch, never retry")
    tokens: Annotated[int, Field(ge=1, le=512)] = Field(
        32, description="a beginning that stays suspicious is held for so many"
    )
    bytes: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        65536, description="... or for so many; stay well below Envoy's buffer limit of 1 MiB"
    )
    deadline: Seconds = Field(4.0, description="seconds since the headers")
    gap: Seconds = Field(
        0.8, description="seconds without a message; below the filter's message_timeout"
    )
    patience: Annotated[float, Field(ge=0, le=3600)] = Field(
        0,
        description="seconds, the filter's max_message_timeout: a gap then ends no hold, Envoy is "
        "asked to wait longer, and deadline counts from the first body message. For engines that "
        "send headers before they read the prompt, as llama.cpp does",
    )
    observe_tokens: Annotated[int, Field(ge=0, le=512)] = Field(
        16, description="least tokens held while a unit is observed"
    )


class LimitsModel(_Model):
    """Bounds on reading one response."""

    body_bytes: Bytes = Field(1 << 20, description="a larger JSON body passes unchecked")
    message_bytes: Bytes = Field(64 << 10, description="a larger stream message is skipped")
    expansion: Annotated[int, Field(ge=2, le=2000)] = Field(
        100, description="how many times its size a compressed body may become"
    )


Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=0.5)]


class HealthModel(_Model):
    """The sequential test behind a unit's state, and who is blamed."""

    floor: Rate = Field(0.001, description="corrupt rate that is no news at all")
    prior: Rate = Field(
        0.004,
        description="assumed of a unit whose own rate is not known and that has no stable sibling",
    )
    ceiling: Rate = Field(0.02, description="no baseline is taken to be higher")
    observe_at: Annotated[float, Field(gt=1)] = Field(20, description="e-value for observe")
    alpha: Annotated[float, Field(gt=0, lt=0.05)] = Field(
        1e-5, description="false quarantines per response at most; quarantine at 1/alpha"
    )
    min_sample: Annotated[int, Field(ge=1)] = Field(
        200, description="settled answers from which a sibling is compared with"
    )
    clear_after: Annotated[int, Field(ge=1)] = Field(
        50, description="clean responses in a row that end observe"
    )
    pair_seconds: Seconds = Field(
        5, description="seconds that a charge waits for the other attempt"
    )
    classes_routed: bool = Field(
        False,
        description="the mesh routes context classes apart, by unit#class; if not, a fault in one "
        "class takes the whole unit out",
    )
    max_quarantined: Share = Field(0.5, description="share of the units that may be cut off hard")


class SamplingModel(_Model):
    """Which responses are read, and whose they are."""

    share: Share = Field(
        1.0,
        description="of the responses of a unit in pass that are inspected, for each host and "
        "class alike",
    )
    client_attributes: list[str] = Field(
        ["request.headers['x-forwarded-for']"],
        description="Envoy attributes that tell clients apart, best first; list them in the "
        "filter's response_attributes. Kept as a salted hash",
    )


_EXECUTION_PATH = {
    *("model", "engine", "engine_version", "quantization", "backend", "dtype", "kv_dtype"),
    *("tensor_parallel", "speculative", "prefix_cache", "driver", "release"),
}


class UnitModel(JudgingModel):
    """One deployment unit: an id, and whatever changes its execution path."""

    id: Name = Field(description="its name in metadata, headers, metrics and health checks")
    model: str = ""
    engine: str = Field("", description="vllm, sglang, llama.cpp, ...")
    engine_version: str = ""
    quantization: str = Field("", description="nvfp4, fp8, awq, q4_k_m, ...")
    backend: str = Field("", description="of attention and kernels: flashinfer, trtllm, cpu, ...")
    dtype: str = Field("", description="of activations: bfloat16, float16, ...")
    kv_dtype: str = Field("", description="of the KV cache")
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    speculative: str = Field("", description="how, if at all: eagle, ngram, ...")
    prefix_cache: bool | None = Field(None, description="whether it is on")
    driver: str = ""
    release: Name | Literal[""] = Field("", description="image digest, git sha, ...")
    clusters: list[str] = Field(
        [], description="Envoy clusters that serve it, if metadata does not"
    )
    hosts: list[HostModel] = Field([], description="who runs it, where `render` makes the cluster")
    labels: dict[str, Label] = Field({}, description="of its pods; istio: a subset is written")
    fallback: list[Name] = Field([], description="units that may take its traffic, best first")
    verified: bool = Field(False, description="its present release may take others' traffic")
    sample: Share | None = Field(None, description="sampling.share of this unit")
    probe: ProbeModel | None = Field(None, description="where it is probed; not at all without")

    def unit(self) -> Unit:
        """The same, as the other rooms know it."""
        described = self.model_dump(include={"id", "verified", *_EXECUTION_PATH})
        return Unit(**described, fallback=tuple(self.fallback))

    def same_configuration(self, other: UnitModel) -> bool:
        """Whether the other unit runs the same thing, as far as both are described."""
        ours, theirs = (unit.model_dump(include=_EXECUTION_PATH) for unit in (self, other))
        return bool(self.model and self.engine) and ours == theirs


class ContextClassModel(_Model):
    """A bucket of prompt sizes."""

    name: Name
    up_to_bytes: Bytes


HeaderName = Annotated[str, Field(pattern="^[a-z0-9-]{1,64}$")]


class TrustedHeadersModel(_Model):
    """Response headers that may say who answered where metadata and clusters do not. Whoever can
    set them can speak for any unit: only for engines behind a proxy of your own."""

    unit: HeaderName | Literal[""] = ""
    release: HeaderName | Literal[""] = ""


class LogModel(_Model):
    """Logs go to standard error. They never hold prompt or response text."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class Settings(JudgingModel, BaseSettings):
    """The whole configuration. SEMANTIC_EXTPROC_GRPC__ADDRESS overrides ``grpc.address``."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix="SEMANTIC_EXTPROC_",
        env_nested_delimiter="__",
    )

    server: ServerModel = ServerModel()
    grpc: GrpcModel = GrpcModel()
    admin: AdminModel = AdminModel()
    hold: HoldModel = HoldModel()
    limits: LimitsModel = LimitsModel()
    health: HealthModel = HealthModel()
    sampling: SamplingModel = SamplingModel()
    store: StoreModel = StoreModel()
    samples: SamplesModel = SamplesModel()
    fleet: FleetModel = FleetModel()
    probes: ProbesModel = ProbesModel()
    units: list[UnitModel] = []
    trusted_headers: TrustedHeadersModel = TrustedHeadersModel()
    context_classes: list[ContextClassModel] = [ContextClassModel(name="short", up_to_bytes=16384)]
    largest_class: Name = Field("long", description="the class above the last bound")
    paths: dict[str, str] = Field({}, description="path endings of your own -> dialect")
    late_verdict: Literal["pass", "terminate"] = Field(
        "pass", description="what becomes of a stream that turns corrupt after its first bytes"
    )
    baselines: dict[str, JudgingModel] = Field(
        {}, description="model -> what is ordinary for it (semantic-extproc baseline learns it)"
    )
    webhooks: list[WebhookModel] = []
    xds: XdsModel = XdsModel()
    mesh: MeshModel = MeshModel()
    log: LogModel = LogModel()

    def policy_of(self, unit: str) -> Policy:
        """A model's baseline goes over what holds for all, a unit's own settings over both."""
        policy = self.policy()
        for entry in self.units:
            if entry.id == unit:
                if baseline := self.baselines.get(entry.model):
                    policy = policy.under(baseline.policy())
                policy = policy.under(entry.policy())
        return policy

    @property
    def workers(self) -> int:
        """How many processes read answers."""
        return self.server.count(self.grpc.address)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file, which arrives as init arguments."""
        return env_settings, init_settings

    @field_validator("paths")
    @classmethod
    def _dialects(cls, paths: dict[str, str]) -> dict[str, str]:
        for path, dialect in paths.items():
            if dialect not in DIALECTS:
                raise ValueError(f"{path}: no dialect {dialect!r}; known: {', '.join(DIALECTS)}")
        return paths

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems: list[str] = []
        ids = [unit.id for unit in self.units]
        owners: dict[str, str] = {}
        for at, unit in enumerate(self.units):
            if (first := ids.index(unit.id)) != at:
                problems.append(f"units[{at}].id: {unit.id!r} is already the id of units[{first}]")
            for name in unit.fallback:
                if name not in ids or name == unit.id:
                    problems.append(f"units[{at}].fallback: {name!r} is no other unit")
            for cluster in unit.clusters:
                if owners.setdefault(cluster, unit.id) != unit.id:
                    problems.append(
                        f"units[{at}].clusters: {cluster!r} belongs to {owners[cluster]!r} already"
                    )
            for earlier, other in enumerate(self.units[:at]):
                if unit.id != other.id and unit.same_configuration(other):
                    problems.append(
                        f"units[{at}]: {unit.id!r} is the configuration of units[{earlier}] "
                        f"({other.id!r}) under another name: what fails on one fails on both"
                    )
        bounds = [entry.up_to_bytes for entry in self.context_classes]
        if bounds != sorted(set(bounds)):
            problems.append("context_classes: up_to_bytes must ascend")
        names = [*(entry.name for entry in self.context_classes), self.largest_class]
        if len(set(names)) != len(names):
            problems.append("context_classes: two classes have one name")
        problems += signal_problems(self.webhooks, self.xds, ids, names)
        problems += mesh_problems(self.mesh, {unit.id: unit.hosts for unit in self.units})
        others = {"admin.address": self.admin.address, "xds.address": self.xds.address}
        problems += server_problems(self.server, self.grpc.address, others)
        if problems:
            raise ValueError("\n".join(problems))
        return self
