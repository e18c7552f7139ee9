"""Another yardstick: the processor base class of the package envoy-extproc-sdk, doing nothing.

Release 0.1.1 does not start as it is installed: its wheel lacks the health-check classes that it
imports, and ddtrace 3 and later lack a name it uses. So it gets a venv of its own, an older
ddtrace, and the classes of grpcio-health-checking under the name it looks for.

usage: python -m bench.sdk PORT (inside that venv: python bench/sdk.py PORT)
"""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

VENV = Path(".cache/sdk")
PACKAGES = ("envoy-extproc-sdk==0.1.1", "ddtrace<3", "xds-protos", "grpcio-health-checking")


class CannotInstall(Exception):
    """The package cannot be had here."""


def python() -> Path:
    """The interpreter of the venv, made on first use. Raises CannotInstall."""
    binary = (VENV / "bin/python").absolute()
    ready = VENV / ".ready"
    if not ready.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True, capture_output=True)
            subprocess.run(
                [binary, "-m", "pip", "install", "--quiet", *PACKAGES],
                check=True,
                capture_output=True,
                text=True,
                timeout=600,
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise CannotInstall(f"envoy-extproc-sdk cannot be installed: {error}") from None
        ready.touch()
    return binary


def main(port: int) -> None:
    """Serves until killed."""
    os.environ["DD_TRACE_ENABLED"] = "false"
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    name = "grpc_health_check"
    sys.modules[name] = types.ModuleType(name)
    sys.modules[f"{name}.v1"] = types.ModuleType(f"{name}.v1")
    sys.modules[f"{name}.v1.health_pb2"] = health_pb2
    sys.modules[f"{name}.v1.health_pb2_grpc"] = health_pb2_grpc
    from envoy_extproc_sdk import BaseExtProcService, serve

    serve(BaseExtProcService(name="noop"), port=port)


if __name__ == "__main__":
    main(int(sys.argv[1]))
