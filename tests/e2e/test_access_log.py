"""The access log of the shipped configuration, which docs/observability.md shows, as a real Envoy
writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.demo.envoy import standalone
from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, HEALTHY, answers, stream

PAGE = (Path(__file__).resolve().parents[2] / "docs/observability.md").read_text()


def proposed(tier: str) -> dict[str, Any]:
    found = re.search(rf"<!-- access log: {tier} -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = yaml.safe_load(found[1])
    return content


def shipped(tier: str) -> dict[str, Any]:
    config = yaml.safe_load((standalone() / "envoy.yaml").read_text())
    (listener, *_) = (
        listener
        for listener in config["static_resources"]["listeners"]
        if (listener["name"] == "front") is (tier == "front")
    )
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    content: dict[str, Any] = manager["access_log"][0]["typed_config"]["log_format"]
    return content


@pytest.mark.parametrize("tier", ["front", "unit"])
def test_the_page_shows_what_is_shipped(tier: str) -> None:
    assert proposed(tier) == shipped(tier)


async def lines(g: Gateway, count: int) -> list[dict[str, Any]]:
    """The first ``count`` lines of both tiers."""
    found: list[dict[str, Any]] = []

    async def written() -> bool:
        found[:] = [
            json.loads(line) for line in g.log("envoy").splitlines() if line.startswith("{")
        ]
        return len(found) >= count

    await eventually(written)
    return found


async def test_both_tiers_tell_of_a_corrupt_answer_and_its_retry(gateway: Make) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON))
    secret = "/v1/chat/completions?key=very-secret"
    assert (await g.ask(path=secret, prompt="x" * 20_000)).status == 200
    found = await lines(g, 3)
    assert len({line["request_id"] for line in found}) == 1
    units = sorted((line for line in found if line["tier"] == "unit"), key=lambda x: x["attempt"])
    (front,) = (line for line in found if line["tier"] == "front")

    def part(line: dict[str, Any]) -> tuple[Any, ...]:
        names = ("unit", "release", "class", "state", "verdict", "marked", "attempt")
        return tuple(line[name] for name in names)

    assert [part(line) for line in units] == [
        ("unit-a", "r1", "long", "pass", "corrupt", "true", "1"),
        ("unit-b", "r1", "long", "pass", "clean", None, "2"),
    ]
    assert "repetition.unfinished" in units[0]["findings"].split(",")
    assert units[1]["findings"] is None
    assert (front["unit"], front["release"], front["state"]) == ("unit-b", "r1", "pass")
    assert (front["attempts"], front["code"], front["path"]) == (2, 200, "/v1/chat/completions")
    assert "very-secret" not in g.log("envoy"), "the query of a path may hold a key"


async def test_a_verdict_that_comes_late_is_in_the_log_all_the_same(gateway: Make) -> None:
    late = stream([f" {word}" for word in HEALTHY] + ["!"] * 100, "length")
    g = await gateway(answers(late, BANG_JSON, gap=0.01))
    got = await g.ask(stream=True)
    assert b"harbour" in got.body
    (unit,) = (line for line in await lines(g, 2) if line["tier"] == "unit")
    assert (unit["verdict"], unit["marked"], unit["unit"]) == ("corrupt", None, "unit-a")
