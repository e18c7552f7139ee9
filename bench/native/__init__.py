"""Builds the C++ yardstick from Debian's grpc (libgrpc++-dev, protobuf-compiler-grpc)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
BUILT = Path(".cache/bench")
NEEDS = "Debian's libgrpc++-dev, protobuf-compiler, protobuf-compiler-grpc, pkg-config and g++"


class CannotBuild(Exception):
    """The yardstick cannot be built here. The text says what is missing."""


def noop() -> Path:
    """The binary, built when its source is newer. Raises CannotBuild."""
    binary = (BUILT / "noop").absolute()
    sources = [HERE / "noop.cc", HERE / "ext_proc.proto"]
    if binary.exists() and binary.stat().st_mtime > max(s.stat().st_mtime for s in sources):
        return binary
    plugin = shutil.which("grpc_cpp_plugin")
    if plugin is None or not all(map(shutil.which, ("protoc", "g++", "pkg-config"))):
        raise CannotBuild(f"needs {NEEDS}")
    BUILT.mkdir(parents=True, exist_ok=True)
    try:
        _run(
            *("protoc", f"-I{HERE}", f"--cpp_out={BUILT}", f"--grpc_out={BUILT}"),
            *(f"--plugin=protoc-gen-grpc={plugin}", str(sources[1])),
        )
        libraries = _run("pkg-config", "--cflags", "--libs", "grpc++", "protobuf").split()
        generated = [str(BUILT / f"ext_proc.{kind}.cc") for kind in ("pb", "grpc.pb")]
        _run(
            *("g++", "-O2", "-std=c++17", f"-I{BUILT}", str(sources[0]), *generated),
            *("-o", str(binary), *libraries),
        )
    except subprocess.CalledProcessError as error:
        raise CannotBuild(f"{error.cmd[0]}: {error.stderr.strip()[-500:]}") from None
    return binary


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
