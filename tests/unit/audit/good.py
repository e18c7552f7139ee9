"""The shipped configuration as data that a test may spoil, and what is easily found in it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import yaml

from extproc.config import Settings
from extproc.demo.envoy import standalone
from extproc.mesh.audit import Report, Severity, audit
from extproc.mesh.audit.world import Live

Config = dict[str, Any]

OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
PREFIX = "type.googleapis.com/envoy."


def good() -> Config:
    """The shipped envoy.yaml, its anchors written out."""
    loaded: Config = json.loads(_read("envoy.yaml"))
    return loaded


@cache
def _read(name: str) -> str:
    return json.dumps(yaml.safe_load((standalone() / name).read_text()))


def settings() -> Config:
    """The shipped extproc.yaml."""
    loaded: Config = json.loads(_read("extproc.yaml"))
    return loaded


def cluster(config: Config, name: str = "llm") -> Config:
    """A cluster."""
    return next(entry for entry in config["static_resources"]["clusters"] if entry["name"] == name)


def listener(config: Config, name: str = "front") -> Config:
    """A listener."""
    listeners = config["static_resources"]["listeners"]
    return next(entry for entry in listeners if entry["name"] == name)


def manager(config: Config, name: str = "front") -> Config:
    """The connection manager of a listener."""
    found: Config = listener(config, name)["filter_chains"][0]["filters"][0]["typed_config"]
    return found


def host(config: Config, name: str = "front") -> Config:
    """Its virtual host."""
    found: Config = manager(config, name)["route_config"]["virtual_hosts"][0]
    return found


def route(config: Config, name: str = "front") -> Config:
    """Its route's action."""
    found: Config = host(config, name)["routes"][0]["route"]
    return found


def processor(config: Config, name: str = "unit_a") -> Config:
    """The ext_proc filter of a unit."""
    found: Config = manager(config, name)["http_filters"][0]["typed_config"]
    return found


def check(config: Config, name: str = "llm") -> Config:
    """The health check of a cluster."""
    found: Config = cluster(config, name)["health_checks"][0]
    return found


def options(config: Config, name: str = "llm") -> Config:
    """The HttpProtocolOptions of a cluster."""
    found: Config = cluster(config, name)["typed_extension_protocol_options"][OPTIONS]
    return found


def audited(
    config: Any, changed: Config | None = None, stats: dict[str, float] | None = None
) -> Report:
    """The report on one document."""
    return audit(
        [config],
        "test",
        settings=Settings(**changed) if changed is not None else None,
        live=Live(stats) if stats is not None else None,
    )


def ids(report: Report, *severities: Severity) -> set[str]:
    """The checks that found something; errors and warnings unless told."""
    wanted = severities or (Severity.ERROR, Severity.WARNING)
    return {finding.id for finding in report.findings if finding.severity in wanted}
