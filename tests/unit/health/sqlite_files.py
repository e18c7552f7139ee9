"""Stores of tests, and what stands in their folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from extproc.health.stores import Book, StoreError
from extproc.health.stores.sqlite import SqliteStore

ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[tuple[SqliteStore, Book | None]]:
    """The store and the book that it begins with."""
    store = SqliteStore(path, **options)
    try:
        yield store, await store.open()
    finally:
        await store.close()


async def refusal(path: Path, **options: Any) -> str:
    """What is said where the file cannot be opened."""
    store = SqliteStore(path, **{"busy": 0.2, **options})
    with pytest.raises(StoreError) as caught:
        await store.open()
    await store.close()
    return str(caught.value)


def files(folder: Path) -> list[Path]:
    """All that stands there."""
    return sorted(folder.iterdir())


def asides(path: Path) -> list[Path]:
    """Files that were moved aside."""
    return sorted(path.parent.glob(f"{path.name}.corrupt-*"))


WRITER = """
import asyncio, sys
from pathlib import Path
from extproc.health.stores.sqlite import SqliteStore
from tests.unit.health.records import verdict

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    for number in range(1, 1_000_000):
        await store.save({"version": 1, "number": number}, [verdict(number)])
        print(number, flush=True)

asyncio.run(main())
"""


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that saves, and prints what was acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
