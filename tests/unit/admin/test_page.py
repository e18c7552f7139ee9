"""The status page as it is rendered; in a browser it is in tests/e2e/test_status_page.py."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from importlib import resources

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer

from extproc.admin import AdminServer, make_app
from extproc.admin import page as page_module
from extproc.detect import Finding, Kind
from extproc.health import Evidence, Response, Subject
from extproc.health.stores import StoreError
from extproc.processor import Services
from extproc.units import Unit
from tests.unit.admin.client import Client
from tests.unit.services import corrupt, services_of

EVIL = "<script>alert('x')</script>\"'&"

UNITS = [
    Unit("a", model="M", engine="vllm", release="r1", fallback=("b", "c")),
    Unit("b", release="r1", verified=True),
    Unit("c", release="r1"),
]


class Kept:
    """Records of evidence, or a store that fails."""

    def __init__(self, records: list[Evidence] | None) -> None:
        self._records = records
        self.asked = 0

    async def find(self, id: str) -> Evidence | None:
        return None

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        self.asked += 1
        if self._records is None:
            raise StoreError("the disk is full")
        return self._records[:limit]


class Page(HTMLParser):
    """Tags, the text, and the rows of all tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data + " "


async def page(services: Services, records: Kept | None = None, serving: bool = True) -> Page:
    async with TestClient(
        TestServer(make_app(services, lambda: serving, records=records))
    ) as client:
        answer = await client.get("/")
        assert answer.status == 200
        return Page(await answer.text())


@pytest.fixture
def services() -> Services:
    return services_of(*UNITS)


async def test_it_says_what_is_out_and_who_covers_for_it(services: Services) -> None:
    corrupt(services, "a", 3)
    found = await page(services)
    assert "a is out of traffic." in found.text
    assert "quarantine (hard)" in found.text
    assert "b ✓" not in found.text, "marks are of the style, not of the text"
    assert "c not verified" in found.text
    assert "M · vllm" in found.text


async def test_it_says_when_nothing_can_take_over(services: Services) -> None:
    corrupt(services, "c", 3)
    assert "out, and nothing verified can take over" in (await page(services)).text


async def test_it_says_when_no_response_was_ever_seen() -> None:
    assert "No response has been seen yet." in (await page(services_of(*UNITS))).text


async def test_it_says_when_it_does_not_serve() -> None:
    assert "takes no streams" in (await page(services_of(*UNITS), serving=False)).text


async def test_without_units_it_is_a_page_all_the_same() -> None:
    assert "No unit is configured" in (await page(services_of())).text


async def test_nothing_that_metadata_or_people_say_becomes_markup() -> None:
    units = [Unit(EVIL, model=EVIL, engine=EVIL, release=EVIL, fallback=("b",)), Unit("b")]
    services = services_of(*units)
    finding = Finding("repetition", EVIL, 64, 16, shape=EVIL)
    services.record(Response(EVIL, EVIL, EVIL, EVIL, Kind.CORRUPT, (finding,), "i", 1.0))
    services.ledger.hold_out(EVIL, EVIL, 2.0)
    services.components[EVIL] = lambda: EVIL
    record = Evidence(
        EVIL, Subject.STATE, 1.0, EVIL, EVIL, EVIL, EVIL, Kind.CORRUPT, (finding,), cause=EVIL
    )
    found = await page(services, Kept([record]))
    assert [tag for tag, _ in found.tags].count("script") == 1, "the page's own"
    assert not [
        name for _, attributes in found.tags for name in attributes if name.startswith("on")
    ]
    assert EVIL in found.text


async def test_evidence_is_shown_by_its_shape() -> None:
    finding = Finding("repetition", "period", 64, 16, shape='"!" x 64')
    record = Evidence(
        "id-1", Subject.VERDICT, 1.0, "a", "r1", "short", "h1", Kind.CORRUPT, (finding,)
    )
    found = await page(services_of(*UNITS), Kept([record]))
    assert 'repetition.period "!" x 64 64, limit 16' in found.text
    assert ("a", {"href": "api/evidence/id-1"}) in found.tags


async def test_a_store_that_fails_leaves_the_rest_of_the_page() -> None:
    found = await page(services_of(*UNITS), Kept(None))
    assert "It cannot be read: the disk is full" in found.text
    assert "pass" in found.text


async def test_the_picture_is_explained_in_words() -> None:
    found = await page(services_of(*UNITS))
    labels = [attributes["aria-label"] for tag, attributes in found.tags if tag == "svg"]
    assert labels == ["no answers in the last hour"] * 3


async def test_many_clients_at_once_are_shown_one_page_that_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_module, "FRESH", 1e6)
    kept = Kept([])
    app = make_app(services_of(*UNITS), lambda: True, records=kept)
    async with TestClient(TestServer(app)) as client:
        await asyncio.gather(*(client.get("/") for _ in range(30)))
    assert kept.asked == 1


@pytest.mark.parametrize("path", ["/", "/status.css", "/status.js"])
async def test_everything_of_the_page_is_served_under_a_strict_policy(
    client: Client, path: str
) -> None:
    answer = await client.get(path)
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy, "nothing from elsewhere"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_no_asset_asks_for_anything_elsewhere() -> None:
    for asset in (resources.files("extproc.admin") / "static").iterdir():
        text = asset.read_text()
        assert "//" not in text.replace("// ", ""), asset.name
        assert "style=" not in text
        assert "innerHTML =" not in text


async def test_events_end_when_the_sidecar_stops(client: Client) -> None:
    services = services_of(*UNITS)
    server = AdminServer(make_app(services, lambda: True), "127.0.0.1:0")
    await server.start()
    async with ClientSession() as session:
        response = await session.get(f"http://127.0.0.1:{server.port}/api/events")
        assert (await response.content.readline()) == b"event: units\n"
        async with asyncio.timeout(20):
            await server.stop()
            assert (await response.content.read()).endswith(b"event: end\ndata: {}\n\n")


async def test_events_end_when_the_sidecar_begins_to_drain() -> None:
    serving = True
    app = make_app(services_of(*UNITS), lambda: serving)
    async with TestClient(TestServer(app)) as client:
        response = await client.get("/api/events")
        await response.content.readline()
        await asyncio.sleep(0)
        serving = False
        async with asyncio.timeout(20):
            assert (await response.content.read()).endswith(b"event: end\ndata: {}\n\n")
