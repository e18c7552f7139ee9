"""The rooms of the house: what each may import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "extproc"

ORDER = ("wire", "detect", "units", "health", "signals")
"""Bytes -> events -> findings -> verdict -> state -> signals: a room knows those before it."""

PURE = ("wire", "detect", "units")
"""Rooms without input, output or clock; of health, everything but its stores."""

FORBIDDEN = {
    *("grpc", "aiohttp", "asyncio", "time", "datetime", "socket", "ssl", "http", "urllib"),
    *("threading", "multiprocessing", "subprocess", "signal", "select", "selectors", "os", "io"),
    *("pathlib", "tempfile", "shutil", "random", "secrets", "logging", "sqlite3", "redis", "rich"),
    *("typer", "prometheus_client", "google", "envoy", "yaml", "pydantic", "uvloop"),
}


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def core_of_health() -> list[Path]:
    return [path for path in files("health") if "store" not in path.as_posix()]


PURE_FILES = [path for room in PURE for path in files(room)] + core_of_health()
ORDERED_FILES = [(room, path) for room in ORDER for path in files(room)]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PURE_FILES, ids=name)
def test_pure_rooms_touch_nothing_outside(path: Path) -> None:
    assert not {module.partition(".")[0] for module in imports(path)} & FORBIDDEN


@pytest.mark.parametrize("path", PURE_FILES, ids=name)
def test_pure_rooms_open_no_files(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"open", "print", "input", "exec", "eval", "__import__"}


@pytest.mark.parametrize(
    ("room", "path"), ORDERED_FILES, ids=[name(path) for _, path in ORDERED_FILES]
)
def test_a_room_knows_only_those_before_it(room: str, path: Path) -> None:
    known = {f"extproc.{earlier}" for earlier in ORDER[: ORDER.index(room) + 1]}
    for module in imports(path):
        if module.startswith("extproc"):
            assert ".".join(module.split(".")[:2]) in known, module


def test_the_first_rooms_are_there() -> None:
    assert files("wire")
    assert files("detect")
