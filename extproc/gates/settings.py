"""Every setting of the gates: ``settings.json`` says what to check, ``config.toml`` where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from extproc.config.base import readable
from extproc.gates import conditions
from extproc.gates.conditions import Condition

Rate = Annotated[float, Field(ge=0, le=1)]
Tolerance = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, le=86400)]
Count = Annotated[int, Field(ge=1)]


class Model(BaseModel):
    """A group of settings. Unknown names are refused, and so are values of another type: a
    threshold in quotes is a slip that nobody would notice."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


LoadCheck = Literal["weights_load", "tokenizer_load", "quant_config_parse", "ready_endpoint"]


class ModelLoad(Model):
    """Gate 1: the server is ready, and has what it needs."""

    enabled: bool = True
    checks: list[LoadCheck] = [
        "weights_load",
        "tokenizer_load",
        "quant_config_parse",
        "ready_endpoint",
    ]
    timeout_sec: Seconds = Field(300, description="what the server gets to become ready")


class Numerical(Model):
    """Gate 2: the same prompts on candidate and baseline."""

    enabled: bool = True
    logit_drift_tolerance: Tolerance = Field(
        0.02, description="mean difference of the tokens' log probabilities, of the worst prompt"
    )
    perplexity_drift_tolerance: Tolerance = Field(
        0.05, description="relative difference of the perplexity over all prompts"
    )
    check_nan_inf: bool = True
    compare_tp_variants: list[Count] = Field(
        [1, 4], description="tensor-parallel degrees; their endpoints are service.tp of config.toml"
    )
    top_k: Annotated[int, Field(ge=1, le=20)] = Field(
        5, description="most probable tokens that are compared at each place"
    )
    top_k_overlap_threshold: Rate = Field(
        0.6, description="mean share of the top tokens that both have, of the worst prompt"
    )
    tokens: Annotated[int, Field(ge=1, le=256)] = Field(
        16, description="of each answer that are compared"
    )
    required: bool = Field(
        False, description="a server without log probabilities fails, instead of being left out"
    )


class GoldenPrompt(Model):
    """Gate 3: prompts whose answers are known."""

    enabled: bool = True
    deterministic_probe: str = Field("Reply with exactly: OK", min_length=1)
    expected_output: str = Field("OK", min_length=1)
    max_tokens: Annotated[int, Field(ge=1, le=4096)] = 16
    temperature: Annotated[float, Field(ge=0, le=2)] = 0
    pass_rate_threshold: Rate = 1.0
    prompts_file: Path | None = Field(
        None, description="prompts of your own, beside the one above (JSONL, YAML, JSON or text)"
    )
    repeat: Annotated[int, Field(ge=1, le=100)] = Field(1, description="times each is asked")
    timeout_sec: Seconds = Field(60, description="for one answer")

    @field_validator("prompts_file", mode="before")
    @classmethod
    def _path(cls, value: Any) -> Any:
        return Path(value) if isinstance(value, str) else value


class LongContext(Model):
    """Gate 4: long prompts, structured output, tool calls, the prefix cache."""

    enabled: bool = True
    context_lengths: list[Annotated[int, Field(ge=16)]] = Field(
        [4096, 16384, 32768], description="tokens of the prompts"
    )
    json_parse_rate_threshold: Rate = 0.99
    tool_call_schema_check: bool = True
    json_samples: Annotated[int, Field(ge=1, le=1000)] = Field(
        5, description="structured answers that are asked for"
    )
    prefix_cache_check: bool = True
    timeout_sec: Seconds = Field(600, description="for one answer")


class ShadowCanary(Model):
    """Gate 5: what the running sidecar measured on real traffic."""

    enabled: bool = True
    traffic_ratio: Rate = Field(
        0.05, description="meant share of the candidate in traffic; shown beside the real one"
    )
    task_success_drop_threshold: Rate = 0.03
    degeneration_rate_threshold: Rate = 0.001
    significance: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.05, description="how often a release that is no worse may fail"
    )


class GateConfig(Model):
    """The five gates."""

    gate_1_model_load: ModelLoad = ModelLoad()
    gate_2_numerical: Numerical = Numerical()
    gate_3_golden_prompt: GoldenPrompt = GoldenPrompt()
    gate_4_long_context: LongContext = LongContext()
    gate_5_shadow_canary: ShadowCanary = ShadowCanary()


class GateSettings(Model):
    """``settings.json``."""

    gate_config: GateConfig = GateConfig()
    rollback_conditions: list[Condition] = Field(
        list(conditions.DEFAULT), description="findings that call for a rollback"
    )

    @field_validator("rollback_conditions", mode="before")
    @classmethod
    def _known(cls, names: Any) -> Any:
        if not isinstance(names, list):
            return names
        known = [condition.value for condition in Condition]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"no condition is called {unknown[0]!r}; known: {', '.join(known)}")
        return list(dict.fromkeys(Condition(name) for name in names))


def _http(url: str) -> str:
    parts = urlsplit(url)
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        usable = False
    if not usable:
        raise ValueError('write "http://host:port" or "https://host", with a path if there is one')
    return url


class Service(Model):
    """An OpenAI-compatible server. ``base_url`` may end in ``/v1`` or not."""

    base_url: str
    model: str = Field("", description='name that requests carry; "" takes the only one served')
    api_key_env: str = Field("", description="environment variable that holds the key")
    release: str = Field("", description="image digest, git sha; matrix.runtime_version if unset")
    startup_log: Path | None = Field(None, description="what the engine wrote while it started")
    model_path: Path | None = Field(
        None, description="folder with config.json and the tokenizer, if it can be read from here"
    )
    timeout_sec: Seconds = Field(60, description="for one answer, where no gate says otherwise")
    extra_body: dict[str, Any] = Field(
        {}, description="fields for every request, as chat_template_kwargs to turn thinking off"
    )
    ca_file: Path | None = Field(None, description="PEM: authority of the server's certificate")
    cert_file: Path | None = Field(None, description="PEM: our own certificate, if it wants one")
    key_file: Path | None = Field(None, description="PEM: its key")

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        parts = urlsplit(_http(value))
        if "@" in parts.netloc:
            raise ValueError("holds a user or password; name the key's variable with api_key_env")
        if parts.query or parts.fragment:
            raise ValueError("ends with a query or fragment; leave it out")
        return value

    @field_validator("ca_file", "cert_file", "key_file")
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        return readable(value)

    @field_validator("startup_log", "model_path", "ca_file", "cert_file", "key_file", mode="before")
    @classmethod
    def _path(cls, value: Any) -> Any:
        return Path(value) if isinstance(value, str) else value

    @field_validator("api_key_env")
    @classmethod
    def _a_name(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("must name an environment variable; the key itself is never put here")
        return value


class Services(Model):
    """Who is asked. Without a baseline, the one saved of an approved release serves."""

    under_test: Service
    baseline: Service | None = None
    fallback: Service | None = Field(
        None, description="whom verify-fallback asks; under_test if unset"
    )
    tp: dict[str, Service] = Field(
        {}, description="the candidate at other tensor-parallel degrees: [service.tp.1], ..."
    )

    @field_validator("tp")
    @classmethod
    def _degrees(cls, value: dict[str, Service]) -> dict[str, Service]:
        for name in value:
            if not name.isdecimal() or int(name) < 1:
                raise ValueError(f"{name!r} is no tensor-parallel degree; write [service.tp.4]")
        return value


FAMILIES: dict[str, type] = {"dtype_": str, "fusion_": bool, "parallelism_": int}
"""Fields of the matrix that may have any ending, and what their values are."""


class Matrix(BaseModel):
    """The execution path as it is meant to be. Fields that begin with ``dtype_`` (text),
    ``fusion_`` (true or false) and ``parallelism_`` (a number) may have any ending."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    runtime_version: str = ""
    hardware: str = ""
    attention_backend: str = ""
    allreduce_backend: str = ""
    moe_backend: str = ""
    quantization: str = ""
    quantization_kernel: str = ""
    kv_cache_dtype: str = ""
    enforce_eager: bool | None = None
    parallelism_tp: Count | None = None
    fusion_allreduce_rms: bool | None = None
    fusion_static_quant: bool | None = None
    dtype_activation: str = ""
    dtype_rmsnorm_weight: str = ""

    @model_validator(mode="before")
    @classmethod
    def _families(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        problems = []
        for name, value in content.items():
            if name in cls.model_fields:
                continue
            family = next((family for family in FAMILIES if name.startswith(family)), None)
            if family is None:
                problems.append(f"{name}: no such setting")
            elif type(value) is not FAMILIES[family]:
                problems.append(f"{name}: must be {FAMILIES[family].__name__}")
        if problems:
            raise ValueError("\n".join(problems))
        return content

    def declared(self) -> dict[str, str | int | bool]:
        """What was said, without what was left out."""
        return {name: value for name, value in self.model_dump().items() if value not in ("", None)}


class Rollback(Model):
    """What happens when a rollback condition is hit."""

    auto_rollback: bool = Field(
        True, description="call the deployment system; the notice is sent either way"
    )
    notify_webhook: str = Field("", description="URL that gets the details as JSON")
    command: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="the deployment system's command and arguments; details on its stdin"
    )
    url: str = Field("", description="URL of the deployment system; gets the same JSON")
    timeout_sec: Seconds = Field(60, description="for the command, and for each URL")

    @field_validator("notify_webhook", "url")
    @classmethod
    def _url(cls, value: str) -> str:
        return _http(value) if value else value


class SidecarAccess(Model):
    """The running sidecar, for gate 5 and ``verify-fallback``."""

    admin_url: str = "http://127.0.0.1:18081"
    candidate_unit: str = ""
    baseline_unit: str = ""
    candidate_release: str = Field("", description="the one met last if unset")
    baseline_release: str = Field("", description="the one met last if unset")

    @field_validator("admin_url")
    @classmethod
    def _url(cls, value: str) -> str:
        return _http(value)


class GateTargets(Model):
    """``config.toml``."""

    service: Services
    matrix: Matrix = Matrix()
    rollback: Rollback = Rollback()
    sidecar: SidecarAccess | None = None

    def of_fallback(self) -> GateTargets:
        """The same for the fallback. It is another configuration by nature: matrix and baseline of
        the release under test are not its own. And nothing is rolled back when it fails."""
        update: dict[str, Any] = {"rollback": Rollback()}
        if self.service.fallback is not None:
            update |= {"service": Services(under_test=self.service.fallback), "matrix": Matrix()}
        return self.model_copy(update=update)

    @property
    def release(self) -> str:
        """The id of the release under test."""
        under_test = self.service.under_test
        return under_test.release or self.matrix.runtime_version or under_test.model or "candidate"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sidecar = self.sidecar
        if sidecar is not None and bool(sidecar.candidate_unit) != bool(sidecar.baseline_unit):
            raise ValueError(
                "sidecar: name both candidate_unit and baseline_unit: they are compared"
            )
        return self
