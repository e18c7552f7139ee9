"""Who answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.units import UNKNOWN, ContextClasses, Registry, Serving, Unit

UNITS = [Unit("a", release="r1", fallback=("b",)), Unit("b")]
CLUSTERS = {"pool_a": "a"}


def test_cluster_metadata_wins_over_host_metadata_over_the_cluster_map() -> None:
    registry = Registry(UNITS, CLUSTERS)
    assert registry.resolve("pool_a", {"unit": "b"}, {"unit": "a"}).unit == "b"
    assert registry.resolve("pool_b", {}, {"unit": "b"}).unit == "b"
    assert registry.resolve("pool_a", {}, {}) == Serving("a", "r1", "")


def test_the_host_s_release_wins_over_the_cluster_s_over_the_configured() -> None:
    registry = Registry(UNITS, CLUSTERS)
    both = registry.resolve("", {"unit": "a", "release": "r2"}, {"release": "r3", "host": "a1"})
    assert both == Serving("a", "r3", "a1")
    assert registry.resolve("", {"unit": "a", "release": "r2"}, {}).release == "r2"


def test_trusted_headers_are_heard_where_nothing_else_is_said() -> None:
    registry = Registry(UNITS, CLUSTERS)
    said = {"unit": "b", "release": "r9"}
    assert registry.resolve("", {}, {}, said) == Serving("b", "r9", "")
    assert registry.resolve("pool_a", {}, {}, said) == Serving("a", "r1", "")
    assert registry.resolve("", {}, {}, {"unit": "not a name"}).unit == UNKNOWN


def test_a_unit_that_no_file_names_is_taken_in_and_one_without_a_name_is_unknown() -> None:
    registry = Registry(UNITS)
    assert registry.resolve("", {"unit": "new"}, {}).unit == "new"
    assert registry.resolve("nowhere", {}, {}).unit == UNKNOWN


def test_units_from_traffic_are_bounded() -> None:
    registry = Registry()
    for number in range(1000):
        registry.resolve("", {"unit": f"u{number}"}, {})
    assert len(list(registry)) <= Registry.MAX_DISCOVERED + 1
    assert registry.resolve("", {"unit": "u999"}, {}).unit == UNKNOWN


@given(st.dictionaries(st.sampled_from(["unit", "release", "host"]), st.text() | st.integers()))
def test_any_metadata_gives_names_that_are_safe_in_headers(metadata: dict[str, object]) -> None:
    for name in Registry().resolve("x", metadata, {}):
        assert name.isascii()
        assert name.isprintable()


@pytest.mark.parametrize(
    ("units", "clusters", "message"),
    [
        ([Unit("a"), Unit("a")], {}, "two units have the id 'a'"),
        ([Unit("a", fallback=("z",))], {}, "'z', which is no unit"),
        ([Unit("a", fallback=("a",))], {}, "falls back to itself"),
        ([Unit("a")], {"c": "z"}, "belongs to 'z', which is no unit"),
    ],
)
def test_contradictions_are_refused(
    units: list[Unit], clusters: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Registry(units, clusters)


def test_context_classes_are_buckets_of_request_bytes() -> None:
    classes = ContextClasses([("short", 100), ("middle", 1000)], "long")
    assert [classes.of(n) for n in (-1, 0, 100, 101, 1000, 1001)] == [
        "short",
        "short",
        "short",
        "middle",
        "middle",
        "long",
    ]
    with pytest.raises(ValueError, match="ascend"):
        ContextClasses([("b", 10), ("a", 5)])
