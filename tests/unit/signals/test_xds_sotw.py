"""The state-of-the-world protocol, one stream of one Envoy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.signals.xds.sotw import SotwSession
from extproc.signals.xds.world import EDS, RTDS, Snapshot, World
from tests.unit.signals.mesh import HARD, PASS, TOPOLOGY, Health, request, statuses, weights


class Envoy:
    """A session, the world behind it, and what was refused."""

    def __init__(self, only: str = "") -> None:
        self.health = Health()
        self.refused: list[tuple[str, str]] = []
        self.world = World(TOPOLOGY, self.health)
        self.unknown: list[str] = []
        self.session = SotwSession(
            only,
            lambda *what: self.refused.append(what),
            lambda _, names: self.unknown.extend(names),
        )

    def snapshot(self) -> Snapshot:
        return self.world.snapshot()

    def asks(self, kind: str, *names: str, **rest: str) -> Any:
        return self.session.request(request(kind, *names, **rest), self.snapshot())

    def changes(self) -> list[Any]:
        return self.session.changed(self.snapshot())


@pytest.fixture
def envoy() -> Envoy:
    return Envoy()


def test_the_first_request_is_answered_with_what_it_names(envoy: Envoy) -> None:
    response = envoy.asks(EDS, "llm", "nobody-knows-this")
    assert list(statuses(response)) == ["llm"]
    assert response.type_url == EDS
    assert response.nonce
    assert response.version_info == envoy.snapshot()[EDS].version


def test_a_name_that_does_not_exist_here_is_reported_once(envoy: Envoy) -> None:
    first = envoy.asks(EDS, "llm", "lmm")
    assert envoy.unknown == ["lmm"]
    second = envoy.asks(EDS, "llm", "lmm", "other", nonce=first.nonce)
    envoy.asks(EDS, "llm", "lmm", "other", nonce=second.nonce)
    assert envoy.unknown == ["lmm"]


def test_a_version_kept_from_another_server_does_not_silence_the_first_answer(
    envoy: Envoy,
) -> None:
    version = envoy.snapshot()[EDS].version
    assert envoy.asks(EDS, "llm", version=version) is not None


def test_an_empty_first_request_gets_all_there_is(envoy: Envoy) -> None:
    response = envoy.asks(EDS)
    assert set(statuses(response)) == {"llm", "other"}
    assert envoy.asks(EDS, nonce=response.nonce) is None


def test_an_ack_is_not_answered(envoy: Envoy) -> None:
    response = envoy.asks(EDS, "llm")
    ack = envoy.asks(EDS, "llm", nonce=response.nonce, version=response.version_info)
    assert ack is None
    assert envoy.changes() == []


def test_a_nack_is_reported_and_its_content_is_not_sent_again_until_it_changes(
    envoy: Envoy,
) -> None:
    response = envoy.asks(EDS, "llm")
    assert envoy.asks(EDS, "llm", nonce=response.nonce, error="bad address") is None
    assert envoy.refused == [(EDS, "bad address")]
    assert envoy.changes() == []
    envoy.health.answers["a"] = HARD
    (update,) = envoy.changes()
    assert statuses(update)["llm"] == [2, 1]


def test_a_change_goes_only_to_those_who_named_what_changed(envoy: Envoy) -> None:
    envoy.asks(EDS, "llm")
    envoy.health.answers["c"] = HARD
    assert envoy.changes() == []
    envoy.asks(RTDS, "semantic")
    envoy.health.answers["a"] = HARD
    eds, rtds = envoy.changes()
    assert statuses(eds) == {"llm": [2, 1]}
    assert weights(rtds) == {"canary.a": 0, "canary.b": 100}
    assert envoy.changes() == []


def test_added_names_are_answered_and_dropped_names_are_not(envoy: Envoy) -> None:
    first = envoy.asks(EDS, "llm")
    second = envoy.asks(EDS, "llm", "other", nonce=first.nonce)
    assert set(statuses(second)) == {"llm", "other"}
    assert envoy.asks(EDS, "other", nonce=second.nonce) is None
    envoy.health.answers["a"] = HARD
    assert envoy.changes() == []
    again = envoy.asks(EDS, "llm", "other", nonce=second.nonce)
    assert statuses(again)["llm"] == [2, 1]


def test_who_drops_every_name_hears_nothing_more(envoy: Envoy) -> None:
    first = envoy.asks(EDS, "llm")
    assert envoy.asks(EDS, nonce=first.nonce) is None
    envoy.health.answers["a"] = HARD
    assert envoy.changes() == []


def test_a_request_about_an_older_response_is_passed_over(envoy: Envoy) -> None:
    first = envoy.asks(EDS, "llm")
    envoy.health.answers["a"] = HARD
    (second,) = envoy.changes()
    assert envoy.asks(EDS, "llm", "other", nonce=first.nonce) is None
    assert envoy.asks(EDS, "llm", nonce=first.nonce, error="stale") is None
    assert envoy.refused == []
    assert envoy.asks(EDS, "llm", "other", nonce=second.nonce) is not None


def test_types_have_their_own_nonces_on_one_aggregated_stream(envoy: Envoy) -> None:
    eds, rtds = envoy.asks(EDS, "llm"), envoy.asks(RTDS, "semantic")
    assert eds.nonce != rtds.nonce
    assert envoy.asks(EDS, "llm", "other", nonce=eds.nonce) is not None


def test_other_types_are_not_answered(envoy: Envoy) -> None:
    assert envoy.asks("type.googleapis.com/envoy.config.cluster.v3.Cluster") is None
    assert Envoy(only=EDS).asks(RTDS, "semantic") is None


def test_a_stream_of_one_type_need_not_say_it() -> None:
    response = Envoy(only=RTDS).asks("", "semantic")
    assert weights(response) == {"canary.a": 25, "canary.b": 100}


REQUESTS = st.tuples(
    st.just("ask"),
    st.sampled_from([EDS, RTDS, "", "x"]),
    st.lists(st.sampled_from(["llm", "other", "semantic", "z"]), max_size=3),
    st.sampled_from(["", "last", "9999"]),
    st.sampled_from(["", "no"]),
)
CHANGES = st.tuples(st.just("set"), st.sampled_from("abc"), st.sampled_from([PASS, HARD]))


@given(st.lists(st.one_of(REQUESTS, CHANGES), max_size=30))
def test_whatever_an_envoy_says_it_ends_with_the_latest_of_what_it_named(
    steps: list[Any],
) -> None:
    envoy = Envoy()
    nonces: dict[str, str] = {}
    holds: dict[str, list[int]] = {}
    names: set[str] = set()
    subscribed = False

    def take(response: Any) -> None:
        nonces[response.type_url] = response.nonce
        if response.type_url == EDS:
            holds.update(statuses(response))

    for step in steps:
        if step[0] == "set":
            envoy.health.answers[step[1]] = step[2]
        else:
            _, kind, wanted, nonce, error = step
            nonce = nonces.get(kind, "") if nonce == "last" else nonce
            response = envoy.asks(kind, *wanted, nonce=nonce, error=error)
            if kind == EDS and (not subscribed or nonce in ("", nonces.get(EDS))):
                wild = names == {"*"} or not subscribed
                names = set(wanted) or ({"*"} if wild else set())
                subscribed = True
            if response is not None:
                take(response)
        for response in envoy.changes():
            take(response)
    if subscribed:
        known = {"llm", "other"}
        for name in known if names == {"*"} else known & names:
            now = {"llm": ["a", "b"], "other": ["c"]}[name]
            assert holds[name] == [2 if envoy.health(unit) is HARD else 1 for unit in now]
