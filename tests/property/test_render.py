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

IDS = st.sampled_from(["a", "b-1", "b_1", "llm", "m|vllm|awq", "host:8000", "x@y"])
HOSTS = st.sampled_from(
    ["10.0.0.1:80", "[::1]:8000", "engine.internal:80", {"address": "10.0.0.2:1", "name": "h"}]
)
CLUSTERS = st.sampled_from(
    ["c", "outbound|80|v1|a.b.c", "outbound|80||a.b.c", "httproute/n/u/rule/0"]
)
UNIT = st.fixed_dictionaries(
    {"id": IDS},
    optional={
        "hosts": st.lists(HOSTS, max_size=2),
        "clusters": st.lists(CLUSTERS, max_size=2),
        "fallback": st.lists(IDS, max_size=2),
        "labels": st.just({"v": "1"}),
        "verified": st.booleans(),
        "release": st.sampled_from(["r1", "sha256:12"]),
    },
)
ROUTE = st.fixed_dictionaries(
    {"name": st.sampled_from(["llm", "other"])},
    optional={
        "unit": IDS,
        "route": st.sampled_from(["chat", "n/chat"]),
        "virtual_host": st.just("h:80"),
        "domains": st.lists(st.sampled_from(["*", "h"]), min_size=1, max_size=2, unique=True),
        "prefix": st.sampled_from(["/", "/v1"]),
    },
)
SIDECAR = st.fixed_dictionaries(
    {},
    optional={
        "addresses": st.lists(
            st.sampled_from(["127.0.0.1:1", "unix:///run/a", "sidecar.internal:18080"]), max_size=2
        ),
        "health": st.sampled_from(["[::1]:18081", "10.1.1.1:80"]),
    },
)
MESH = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["two-tier", "observe", "shadow"]),
        "eject": st.booleans(),
        "requests": st.sampled_from(["hidden", "shown"]),
        "routes": st.lists(ROUTE, min_size=1, max_size=2),
        "shadow": st.fixed_dictionaries({"unit": IDS}),
        "sidecar": SIDECAR,
    },
)
TREES = st.fixed_dictionaries({"units": st.lists(UNIT, max_size=4), "mesh": MESH})
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


@settings(max_examples=150)
@given(TREES, st.sampled_from(list(Target)), st.sampled_from(["1.36", "1.40"]))
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
