"""The YAML that is written says what it was given, whatever that is."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from extproc.mesh.render.yaml import Notes, dump

WORDS = st.text(max_size=20) | st.sampled_from(["yes", "null", "1", "-", "a: b", "# x", "*", "'"])
LINES = st.lists(st.text("abc :#{}\n", min_size=1, max_size=9), min_size=2).map("\n".join)
SCALARS = WORDS | LINES | st.integers() | st.booleans() | st.none()
KEYS = st.text("abcdefgh_@.", min_size=1, max_size=8)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
COMMENTS = st.text("why: - 'so'\n", max_size=30)


@given(st.dictionaries(KEYS, TREES, min_size=1), st.dictionaries(KEYS, COMMENTS, max_size=3))
def test_a_tree_is_read_back_as_it_was(tree: dict[str, Any], notes: dict[str, str]) -> None:
    assert yaml.safe_load(dump(tree, Notes(notes))) == tree


def test_a_comment_stands_before_its_setting_and_once() -> None:
    unit = {"name": "x", "limits": {"max": 3, "min": 1}}
    text = dump({"units": [unit, unit | {"name": "y"}]}, Notes({"limits.max": "Enough."}))
    assert text == (
        "units:\n"
        "- name: x\n"
        "  limits:\n"
        "    # Enough.\n"
        "    max: 3\n"
        "    min: 1\n"
        "- {name: y, limits: {max: 3, min: 1}}\n"
    )


def test_a_note_may_name_one_entry_of_a_list() -> None:
    text = dump(
        {"units": [{"name": "a.b", "n": 1}, {"name": "c", "n": 1}]},
        Notes({"units[a.b]": "First.", "units[c].n": "Last."}),
    )
    assert text == ("units:\n# First.\n- {name: a.b, n: 1}\n- name: c\n  # Last.\n  n: 1\n")
