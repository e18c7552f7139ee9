"""The records of evidence, through real HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application

from extproc.admin.evidence import evidence_routes
from extproc.detect import Finding
from extproc.health.evidence import Evidence
from extproc.health.stores import StoreError
from extproc.health.stores.memory import MemoryStore
from tests.unit.admin.client import Client
from tests.unit.health.records import verdict


class Records(MemoryStore):
    """Memory with the face of the keeper."""

    error: StoreError | None = None

    async def find(self, id: str) -> Evidence | None:
        if self.error is not None:
            raise self.error
        return await self.evidence(id)

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        if self.error is not None:
            raise self.error
        return await super().recent(unit, limit)


@pytest.fixture
async def records() -> Records:
    made = Records()
    await made.save(None, [verdict(n, "ab"[n % 2]) for n in range(200)])
    return made


@pytest.fixture
async def client(records: Records) -> AsyncIterator[Client]:
    app = Application()
    app.add_routes(evidence_routes(records))
    async with TestClient(TestServer(app)) as made:
        yield made


async def listed(client: Client, query: str) -> list[str]:
    answer = await client.get(f"/api/evidence{query}")
    assert answer.status == 200
    return [record["id"] for record in (await answer.json())["evidence"]]


async def test_the_latest_come_first_and_are_bounded(client: Client) -> None:
    assert await listed(client, "?limit=3") == [verdict(n).id for n in (199, 198, 197)]
    assert await listed(client, "?limit=2&unit=a") == [verdict(n).id for n in (198, 196)]
    assert len(await listed(client, "")) == 50
    assert await listed(client, "?unit=none") == []


async def test_one_record_reads_as_it_was_kept(client: Client) -> None:
    answer = await client.get(f"/api/evidence/{verdict(7, 'b').id}")
    assert Evidence.from_dict(await answer.json()) == verdict(7, "b")
    assert (await client.get("/api/evidence/none")).status == 404


async def test_numbers_that_json_has_not_are_written_as_protobuf_does(
    client: Client, records: Records
) -> None:
    from dataclasses import replace

    finding = Finding("nonfinite", "value", float("nan"), float("-inf"))
    await records.save(None, [replace(verdict(999), findings=(finding,), e_value=float("inf"))])
    text = await (await client.get(f"/api/evidence/{verdict(999).id}")).text()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    found = json.loads(text, parse_constant=refuse)
    assert found["findings"][0]["value"] == "NaN"
    assert found["findings"][0]["threshold"] == "-Infinity"
    assert found["e_value"] == "Infinity"


@pytest.mark.parametrize(
    "limit", ["0", "1001", "-1", "x", "", "1e3", "9" * 30, "000000001" + "9" * 5000, "٣"]
)
async def test_a_limit_is_a_number_in_bounds(client: Client, limit: str) -> None:
    assert (await client.get("/api/evidence", params={"limit": limit})).status == 400


async def test_a_failing_store_is_said(client: Client, records: Records) -> None:
    records.error = StoreError("s.db: the disk is gone")
    for path in ("/api/evidence", "/api/evidence/1"):
        answer = await client.get(path)
        assert answer.status == 503
        assert "the disk is gone" in await answer.text()
