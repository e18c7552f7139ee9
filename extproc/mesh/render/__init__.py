"""``semantic-extproc render``: settings -> configuration of Envoy, Istio or Envoy Gateway."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extproc.config import Settings
from extproc.mesh.render import envoy_gateway, istio, standalone
from extproc.mesh.render.plan import RenderError, plan
from extproc.mesh.render.versions import Version


class Target(StrEnum):
    """Whom the configuration is for."""

    STANDALONE = "standalone"
    ISTIO = "istio"
    ENVOY_GATEWAY = "envoy-gateway"


_WRITERS = {
    Target.STANDALONE: standalone.files,
    Target.ISTIO: istio.files,
    Target.ENVOY_GATEWAY: envoy_gateway.files,
}

DEFAULT = Version()
"""For the newest Envoy that is tested."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Files by name, and what their reader should know."""

    files: dict[str, str]
    warnings: tuple[str, ...]


def render(settings: Settings, target: Target, version: Version = DEFAULT) -> Rendered:
    """The same settings always come to the same text. Raises ``RenderError``."""
    made = plan(settings, standalone=target is Target.STANDALONE)
    for feature in version.lacking:
        made.warn(f"left out for Envoy {version}: {feature.without}")
    files = _WRITERS[target](made, version)
    return Rendered(files, tuple(made.warnings))


__all__ = ["RenderError", "Rendered", "Target", "Version", "render"]
