"""Whatever the settings: what Envoy's own messages take, or problems with their places."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.config import ConfigError, Settings, parse
from extproc.mesh.render import RenderError, Target, Version, render
from tests.mesh import schemas
from tests.mesh.protos import Bootstrap, Cluster, Listener, Route
from tests.mesh.protos import parse as message

IDS = ("a", "b-1", "b_1", "llm-7", "m|vllm|awq", "host:8000", "x@y")
HOSTS = st.sampled_from(
    ["10.0.0.1:80", "[::1]:8000", "engine.internal:80", {"address": "10.0.0.2:1", "name": "h"}]
)
CLUSTERS = ("c", "llm", "outbound|80|v1|a.b.c", "outbound|80||a.b.c", "httproute/n/u/rule/0")
SIDECAR = st.fixed_dictionaries(
    {},
    optional={
        "addresses": st.lists(
            st.sampled_from(["127.0.0.1:1", "[::1]:2", "sidecar.internal:18080"]), max_size=2
        )
        | st.just(["unix:///run/a", "unix:///run/b"]),
        "health": st.sampled_from(["[::1]:18081", "10.1.1.1:80"]),
    },
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that hang together more often than not."""
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True))
    clusters = draw(st.permutations(CLUSTERS))
    units = []
    for at, name in enumerate(ids):
        others = [other for other in ids if other != name]
        hosts = draw(st.lists(HOSTS, min_size=at % 3, max_size=2, unique_by=str))
        unit = {"id": name, "hosts": hosts, "verified": draw(st.booleans())}
        if draw(st.booleans()) or not hosts:
            unit |= {"clusters": [clusters[at]], "labels": draw(st.sampled_from([{}, {"v": "1"}]))}
        if others:
            unit["fallback"] = draw(st.lists(st.sampled_from(others), max_size=2, unique=True))
        units.append(unit)
    names = draw(st.permutations(["llm", "other"]))
    routes = [
        {
            "name": name,
            "unit": draw(st.sampled_from(ids)),
            "route": draw(st.sampled_from(["n/chat", "n/rest"])),
            "domains": draw(st.sampled_from([["*"], ["h"], ["h", "*"]])),
            "prefix": draw(st.sampled_from(["/", "/v1", "/v1/chat"])),
        }
        for name in names[: draw(st.integers(1, 2))]
    ]
    mesh = {
        "mode": draw(st.sampled_from(["two-tier", "observe", "shadow"])),
        "eject": draw(st.booleans()),
        "requests": draw(st.sampled_from(["hidden", "shown"])),
        "routes": routes,
        "shadow": {"unit": ids[-1]},
        "sidecar": draw(SIDECAR),
    }
    return {"units": units, "mesh": mesh, "trusted_headers": {"unit": "x-unit"}}


KINDS = {"LISTENER": Listener, "CLUSTER": Cluster, "HTTP_ROUTE": Route}


def taken(files: dict[str, str], target: Target) -> None:
    for text in files.values():
        for tree in yaml.safe_load_all(text):
            if target is Target.STANDALONE:
                message(Bootstrap, tree)
                continue
            schemas.validate(tree)
            for patch in tree["spec"].get("configPatches", []):
                message(KINDS[patch["applyTo"]], patch["patch"]["value"])


def read(tree: dict[str, Any]) -> Settings | None:
    try:
        return parse(yaml.safe_dump(tree), "x.yaml")
    except ConfigError:
        return None


@settings(max_examples=80)
@given(trees(), st.sampled_from(list(Target)), st.sampled_from(["1.36", "1.40"]))
def test_what_is_rendered_is_taken_and_what_is_not_is_explained(
    tree: dict[str, Any], target: Target, version: str
) -> None:
    if (found := read(tree)) is None:
        return
    try:
        result = render(found, target, Version.parse(version))
    except RenderError as error:
        explained = [bool(setting and what) for setting, what in error.problems]
    else:
        taken(result.files, target)
        explained = [render(found, target, Version.parse(version)) == result]
    assert explained
    assert all(explained)
