"""The incremental protocol, one stream of one Envoy."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from extproc.signals.xds.delta import DeltaSession
from extproc.signals.xds.world import EDS, RTDS, Snapshot, World
from tests.unit.signals.mesh import HARD, PASS, TOPOLOGY, Health


class Envoy:
    """A session, the world behind it, and what this Envoy would hold."""

    def __init__(self, only: str = "") -> None:
        self.health = Health()
        self.refused: list[tuple[str, str]] = []
        self.unknown: list[str] = []
        self.world = World(TOPOLOGY, self.health)
        self.held: dict[str, Any] = {}
        self.session = DeltaSession(
            only,
            lambda *what: self.refused.append(what),
            lambda _, names: self.unknown.extend(names),
        )

    def snapshot(self) -> Snapshot:
        return self.world.snapshot()

    def asks(
        self,
        kind: str,
        *names: str,
        drop: tuple[str, ...] = (),
        has: dict[str, str] | None = None,
        error: str = "",
    ) -> Any:
        made = discovery_pb2.DeltaDiscoveryRequest(
            type_url=kind,
            resource_names_subscribe=names,
            resource_names_unsubscribe=drop,
            initial_resource_versions=has or {},
        )
        if error:
            made.error_detail.message = error
        for name in drop:
            self.held.pop(name, None)
        return self._take(self.session.request(made, self.snapshot()))

    def changes(self) -> list[Any]:
        return [self._take(response) for response in self.session.changed(self.snapshot())]

    def _take(self, response: Any) -> Any:
        if response is not None:
            for each in response.resources:
                self.held[each.name] = each.version
            for name in response.removed_resources:
                self.held.pop(name, None)
        return response


@pytest.fixture
def envoy() -> Envoy:
    return Envoy()


def names(response: Any) -> list[str]:
    return [each.name for each in response.resources]


def test_what_is_subscribed_to_is_sent_with_its_version(envoy: Envoy) -> None:
    response = envoy.asks(EDS, "llm")
    assert names(response) == ["llm"]
    assert response.nonce
    message = endpoint_pb2.ClusterLoadAssignment()
    assert response.resources[0].resource.Unpack(message)
    assert message.cluster_name == "llm"
    assert response.resources[0].version == envoy.snapshot()[EDS].by_name["llm"].digest


def test_only_what_changed_is_sent(envoy: Envoy) -> None:
    envoy.asks(EDS, "llm", "other")
    assert envoy.changes() == []
    envoy.health.answers["a"] = HARD
    (response,) = envoy.changes()
    assert names(response) == ["llm"]
    assert envoy.changes() == []


def test_an_envoy_that_comes_back_is_sent_what_it_does_not_have(envoy: Envoy) -> None:
    known = envoy.snapshot()[EDS].by_name["llm"].digest
    response = envoy.asks(EDS, "llm", "other", has={"llm": known, "gone": "1"})
    assert names(response) == ["other"]
    assert list(response.removed_resources) == ["gone"]


def test_a_name_that_does_not_exist_is_removed_and_reported_once(envoy: Envoy) -> None:
    response = envoy.asks(EDS, "llm", "lmm")
    assert list(response.removed_resources) == ["lmm"]
    assert list(envoy.asks(EDS, "lmm").removed_resources) == ["lmm"]
    assert envoy.unknown == ["lmm"]


def test_what_is_asked_for_once_more_is_sent_once_more(envoy: Envoy) -> None:
    envoy.asks(EDS, "llm")
    assert names(envoy.asks(EDS, "llm")) == ["llm"]


def test_an_ack_is_not_answered_and_a_refusal_is_told(envoy: Envoy) -> None:
    envoy.asks(EDS, "llm")
    assert envoy.asks(EDS) is None
    assert envoy.asks(EDS, error="no such locality") is None
    assert envoy.refused == [(EDS, "no such locality")]
    assert envoy.changes() == []


def test_what_is_no_longer_subscribed_to_is_no_longer_sent(envoy: Envoy) -> None:
    envoy.asks(EDS, "llm", "other")
    assert envoy.asks(EDS, drop=("llm",)) is None
    envoy.health.answers["a"] = HARD
    assert envoy.changes() == []


@pytest.mark.parametrize("asked", [(), ("*",)])
def test_all_there_is_may_be_asked_for(envoy: Envoy, asked: tuple[str, ...]) -> None:
    assert set(names(envoy.asks(EDS, *asked))) == {"llm", "other"}
    envoy.health.answers["c"] = HARD
    assert [names(response) for response in envoy.changes()] == [["other"]]


def test_types_share_an_aggregated_stream_and_no_other(envoy: Envoy) -> None:
    envoy.asks(EDS, "llm")
    assert names(envoy.asks(RTDS, "semantic")) == ["semantic"]
    envoy.health.answers["a"] = HARD
    assert {response.type_url for response in envoy.changes()} == {EDS, RTDS}
    assert envoy.asks("type.googleapis.com/envoy.config.cluster.v3.Cluster", "x") is None
    own = Envoy(EDS)
    assert names(own.asks("", "llm")) == ["llm"]
    assert own.asks(RTDS, "semantic") is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("asks"), st.sets(st.sampled_from(["llm", "other", "none"]), min_size=1)),
        st.tuples(st.just("drops"), st.sets(st.sampled_from(["llm", "other", "none"]))),
        st.tuples(st.just("health"), st.sets(st.sampled_from(["a", "b", "c"]))),
    ),
    max_size=12,
)


@given(STEPS)
def test_an_envoy_ends_with_what_it_wants_as_it_is_now(steps: list[tuple[str, set[str]]]) -> None:
    envoy, wanted = Envoy(), {"llm"}
    envoy.asks(EDS, "llm")
    for what, which in steps:
        if what == "asks":
            wanted |= which
            envoy.asks(EDS, *sorted(which))
        elif what == "drops":
            wanted -= which
            envoy.asks(EDS, drop=tuple(sorted(which)))
        else:
            for name in "abc":
                envoy.health.answers[name] = HARD if name in which else PASS
        envoy.changes()
    now = envoy.snapshot()[EDS].by_name
    assert envoy.held == {name: now[name].digest for name in wanted if name in now}
