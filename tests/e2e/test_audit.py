"""What an audit finds is so in the real Envoy, and it finds the same in a file and there."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, answers
from tests.unit.audit.good import Config, cluster, host, manager, processor
from tests.unit.audit.spoilt import SPOILT

BANG = answers(BANG_STREAM, BANG_JSON)


async def audited(source: str, *arguments: str) -> dict[str, Any]:
    """What ``semantic-extproc audit --json`` prints."""
    command = [sys.executable, "-m", "extproc", "audit", source, "--json", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    found: dict[str, Any] = json.loads(out)
    errors = found["summary"]["error"]
    assert process.returncode == (1 if errors else 0)
    return found


def ids(report: dict[str, Any], *severities: str) -> set[str]:
    """The checks that found something."""
    wanted = severities or ("error", "warning")
    return {entry["id"] for entry in report["findings"] if entry["severity"] in wanted}


def answer(report: dict[str, Any], id: str) -> str:
    """The answer to a question."""
    return str(next(entry["answer"] for entry in report["questions"] if entry["id"] == id))


async def both(g: Gateway) -> dict[str, Any]:
    """The live report; what the configuration says must be the same in the file."""
    live = await audited(g.envoy)
    file = await audited(str(g.folder / "envoy.yaml"))
    counted = {entry["id"] for entry in live["findings"] if entry["where"].startswith("stats:")}
    assert ids(live, "error", "warning", "info") - counted == ids(file, "error", "warning", "info")
    return live


async def burst(g: Gateway, number: int, prompt: str = "Hello") -> int:
    """How many of so many clients at once got garbage."""
    got = await asyncio.gather(*(g.ask(prompt=prompt) for _ in range(number)))
    return sum(entry.body == BANG_JSON for entry in got)


def calm(config: Config) -> None:
    """Ejects nothing, so that a burst keeps meeting the corrupt unit."""
    cluster(config)["outlier_detection"]["consecutive_5xx"] = 10


async def test_a_good_gateway_is_found_good(gateway: Make) -> None:
    g = await gateway(BANG)
    assert answer(await audited(g.envoy), "detection") == "cannot-tell"  # no traffic yet
    assert await burst(g, 5) == 0
    report = await audited(
        g.envoy, "--config", str(g.folder / "extproc.yaml"), "--sidecar", g.admin
    )
    assert ids(report) == set()
    assert answer(report, "detection") == answer(report, "failover") == "yes"
    assert answer(report, "coverage") == "no"  # no long prompt has been seen


async def test_few_retries_let_garbage_through(gateway: Make) -> None:
    def change(config: Config) -> None:
        calm(config)
        SPOILT["max-retries"](config)

    g = await gateway(BANG, change=change)
    assert await burst(g, 40) > 0
    assert {"max-retries", "retries-refused"} <= ids(await both(g))


async def test_a_small_request_buffer_loses_the_retry_of_long_prompts(gateway: Make) -> None:
    g = await gateway(BANG, change=SPOILT["request-buffer-limit"])
    assert await burst(g, 1) == 0
    assert await burst(g, 1, prompt="long " * 500_000) == 1
    assert {"request-buffer-limit", "retries-refused"} <= ids(await both(g))


@pytest.mark.parametrize("id", ["retry-priority-missing", "retriable-headers", "mutation-rules"])
async def test_a_broken_retry_gives_the_client_the_garbage(gateway: Make, id: str) -> None:
    g = await gateway(BANG, change=SPOILT[id])
    assert await burst(g, 1) == 1
    report = await both(g)
    assert id in ids(report)
    assert answer(report, "failover") == "no"


async def test_a_filter_that_is_switched_off_is_seen_in_the_counters(gateway: Make) -> None:
    g = await gateway(BANG, change=SPOILT["filter-disabled"])
    assert await burst(g, 3) == 3
    report = await both(g)
    assert "filter-disabled" in ids(report)
    assert answer(report, "detection") == "no"


async def test_by_default_one_unit_of_two_is_never_ejected(gateway: Make) -> None:
    g = await gateway(BANG, change=SPOILT["ejection-percent"])
    for _ in range(6):
        await g.ask()
    assert await g.stat("cluster.llm.outlier_detection.ejections_enforced_total") == 0
    assert {"ejection-percent", "ejections-overflowed"} <= ids(await both(g))


async def test_a_narrow_circuit_breaker_lets_answers_pass_unread(gateway: Make) -> None:
    def change(config: Config) -> None:
        for row in cluster(config, "semantic_extproc")["circuit_breakers"]["thresholds"]:
            row["max_requests"] = 1

    g = await gateway(answers(BANG_STREAM, BANG_JSON, gap=0.01), change=change)
    await asyncio.gather(*(g.ask(stream=True) for _ in range(20)))
    report = await both(g)
    assert {"sidecar-circuit-breaker", "answers-passed-unread"} <= ids(report)


async def test_a_second_route_past_the_filter_is_found(gateway: Make) -> None:
    def change(config: Config) -> None:
        bare = {"match": {"prefix": "/v1/chat"}, "route": {"cluster": "unit_a", "timeout": "0s"}}
        host(config)["routes"].insert(0, bare)

    g = await gateway(BANG, change=change)
    assert await burst(g, 1) == 1
    assert "filter-not-attached" in ids(await both(g))


async def test_a_default_message_timeout_ends_the_hold(gateway: Make) -> None:
    def change(config: Config) -> None:
        for name in ("unit_a", "unit_b"):
            for setting in ("message_timeout", "max_message_timeout"):
                del processor(config, name)[setting]

    slow = answers([*BANG_STREAM[:4], *BANG_STREAM[-2:]], BANG_JSON, gap=0.5)
    g = await gateway(slow, sidecar={"hold": {"gap": 2.0}}, change=change)
    got = await g.ask(stream=True)
    assert got.headers.get("x-semantic-unit") is None  # the client got it before any verdict
    report = await audited(g.envoy, "--config", str(g.folder / "extproc.yaml"))
    assert {"message-timeout-short", "gap-over-message-timeout", "message-timeouts"} <= ids(report)


async def test_routes_and_hosts_that_a_server_sends_are_read(gateway: Make, tmp_path: Path) -> None:
    """RDS and EDS, here from files: in a dump they stand apart from what uses them."""

    def source(name: str, kind: str, resource: Config) -> Config:
        resource = {"@type": f"type.googleapis.com/envoy.config.{kind}", **resource}
        path = tmp_path / name
        path.write_text(yaml.safe_dump({"version_info": "1", "resources": [resource]}))
        return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}

    def change(config: Config) -> None:
        config["node"] = {"id": "gateway", "cluster": "gateway"}
        SPOILT["retry-priority-missing"](config)
        table = manager(config).pop("route_config")
        sent = source("routes.yaml", "route.v3.RouteConfiguration", table)
        manager(config)["rds"] = {"route_config_name": "front", "config_source": sent}
        own = cluster(config, "unit_a")
        hosts = own.pop("load_assignment")
        sent = source("hosts.yaml", "endpoint.v3.ClusterLoadAssignment", hosts)
        own.update(type="EDS", eds_cluster_config={"eds_config": sent})

    g = await gateway(BANG, change=change)
    report = await audited(g.envoy)
    assert ids(report) == {"retry-priority-missing"}
    where = next(e["where"] for e in report["findings"] if e["id"] == "retry-priority-missing")
    assert "dynamic_route_configs" in where
    assert await burst(g, 1) == 1
