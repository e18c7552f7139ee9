"""Who runs where: units, builds, ports, and the files that say so.

The configuration is the shipped one (``envoy/standalone``), read from its files. Only two things
differ: ports, and unit A's hosts, which Envoy reads from a file so that a release can be rolled
out while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from extproc.demo import envoy
from extproc.demo.ports import free_ports

UNIT_A, UNIT_B = "unit-a", "unit-b"
LISTENERS = {UNIT_A: "unit_a", UNIT_B: "unit_b"}
"""Of each unit: its internal listener, which is also its cluster."""


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a unit on one port. ``alias`` is the model's name in its answers."""

    unit: str
    release: str
    host: str
    port: int
    corrupt: bool = False

    @property
    def alias(self) -> str:
        return f"{self.unit}-{self.release}"


@dataclass(frozen=True, slots=True)
class Topology:
    """Every address of one demo, and its files in ``folder``."""

    folder: Path
    front: int
    envoy_admin: int
    grpc: int
    sidecar: int
    healthy: Build
    rollout: Build
    fallback: Build

    @classmethod
    def on_free_ports(cls, folder: Path) -> Topology:
        """A topology with free ports for everything."""
        front, admin, grpc, sidecar, one, two, other = free_ports(7)
        return cls(
            folder,
            front,
            admin,
            grpc,
            sidecar,
            healthy=Build(UNIT_A, "r1", "a1", one),
            rollout=Build(UNIT_A, "r2", "a2", two, corrupt=True),
            fallback=Build(UNIT_B, "r1", "b1", other),
        )

    @property
    def url(self) -> str:
        """Where clients send their chats."""
        return f"http://127.0.0.1:{self.front}/v1/chat/completions"

    @property
    def envoy_file(self) -> Path:
        return self.folder / "envoy.yaml"

    @property
    def sidecar_file(self) -> Path:
        return self.folder / "extproc.yaml"

    def route(self, build: Build) -> None:
        """Tells Envoy that ``build`` is unit A's host from now on."""
        endpoints = self.folder / "unit_a.yaml"
        envoy.write_endpoint(
            endpoints,
            LISTENERS[build.unit],
            build.port,
            build.unit,
            build.host,
            build.release,
            self.sidecar,
        )

    def write(self) -> None:
        """Writes the configuration of Envoy and of the sidecar."""
        shipped = envoy.standalone()
        self.route(self.healthy)
        config = envoy.with_ports(_read(shipped / "envoy.yaml"), self._ports())
        config = envoy.with_endpoints_from(config, LISTENERS[UNIT_A], self.folder / "unit_a.yaml")
        self.envoy_file.write_text(yaml.safe_dump(config))
        settings = _read(shipped / "extproc.yaml")
        settings["grpc"]["address"] = f"127.0.0.1:{self.grpc}"
        settings["admin"]["address"] = f"127.0.0.1:{self.sidecar}"
        settings["store"] = {"path": str(self.folder / "semantic-extproc.db")}
        self.sidecar_file.write_text(yaml.safe_dump(settings))

    def _ports(self) -> dict[int, int]:
        return {
            10000: self.front,
            9901: self.envoy_admin,
            18080: self.grpc,
            18081: self.sidecar,
            8001: self.healthy.port,
            8002: self.fallback.port,
        }


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())
