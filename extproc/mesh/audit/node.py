"""One place in a configuration: its value, and the path that leads there.

Configurations arrive as protobuf's JSON mapping or as YAML of it, in two spellings (``max_retries``
and ``maxRetries``), with numbers as strings, enums as names or numbers, and what has its default
left out. A node hides that: a check asks for a field and gets what Envoy would read. An absent
field is a node too, so that a finding can say where a line is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

TYPED_STRUCTS = ("xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct")
_DURATION = re.compile(r"(-?\d+(?:\.\d*)?|-?\.\d+)s")
_PLAIN = re.compile(r"[A-Za-z_@][\w@-]*")


class Misshapen(Exception):
    """What stands at ``path`` is not what Envoy takes there."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'the top'}: {problem}")
        self.path = path
        self.problem = problem


@cache
def camel(name: str) -> str:
    """protobuf's JSON name of a field."""
    head, *tail = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


class Node:
    """A value and its path. False when the field is absent."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str = "") -> None:
        self.value = value
        self.path = path

    def __bool__(self) -> bool:
        return self.value is not None

    def __repr__(self) -> str:
        return f"Node({self.path})"

    def __getitem__(self, name: str) -> Node:
        """The field ``name`` (in snake case) of a message. Raises Misshapen on anything else."""
        fields = self.fields()
        other = camel(name)
        key = other if name not in fields and other in fields else name
        return Node(fields.get(key), join(self.path, key))

    def at(self, *names: str) -> Node:
        """The field that a chain of names leads to."""
        found = self
        for name in names:
            found = found[name]
        return found

    def key(self, name: str) -> Node:
        """The entry of a map, whose keys have one spelling."""
        return Node(self.fields().get(name), join(self.path, name))

    def fields(self) -> dict[str, Any]:
        """The message or map itself; empty when absent. Raises Misshapen."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise Misshapen(self.path, "a mapping is expected")
        return self.value

    def entries(self) -> Iterator[tuple[str, Node]]:
        """The entries of a map."""
        for name in self.fields():
            yield str(name), self.key(name)

    def items(self) -> list[Node]:
        """The elements of a repeated field. Raises Misshapen."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise Misshapen(self.path, "a list is expected")
        return [Node(entry, f"{self.path}[{at}]") for at, entry in enumerate(self.value)]

    def text(self, default: str = "") -> str:
        """A string or an enum's name. Raises Misshapen."""
        if self.value is None:
            return default
        if isinstance(self.value, (dict, list)):
            raise Misshapen(self.path, "a string is expected")
        return str(self.value)

    def texts(self) -> list[str]:
        """The strings of a repeated field."""
        return [entry.text() for entry in self.items()]

    def flag(self, default: bool = False) -> bool:
        """A bool, or a wrapped one. Raises Misshapen."""
        found = self._unwrapped(False)
        if found is None:
            return default
        if isinstance(found, bool):
            return found
        if found in ("true", "false"):
            return bool(found == "true")
        raise Misshapen(self.path, "true or false is expected")

    def number(self, default: float) -> float:
        """A number, a wrapped one, or a ``Percent``. Raises Misshapen."""
        found = self._unwrapped(0)
        if found is None:
            return default
        if not isinstance(found, bool):
            try:
                return float(found)
            except (TypeError, ValueError):
                pass
        raise Misshapen(self.path, "a number is expected")

    def seconds(self, default: float) -> float:
        """A duration. Raises Misshapen."""
        found = self.value
        if found is None:
            return default
        if isinstance(found, dict):
            return self["seconds"].number(0) + self["nanos"].number(0) / 1e9
        match = _DURATION.fullmatch(str(found))
        if match is None:
            raise Misshapen(self.path, 'a duration such as "0.5s" is expected')
        return float(match[1])

    def choice(self, names: Sequence[str]) -> str:
        """An enum's name, given all names in the order of their numbers; absent is the first."""
        found = self.value
        if found is None:
            return names[0]
        if isinstance(found, bool) or not isinstance(found, (int, str)):
            raise Misshapen(self.path, f"one of {', '.join(names)} is expected")
        if str(found).isdecimal():
            number = int(found)
            return names[number] if number < len(names) else str(found)
        return str(found)

    def any(self) -> Node:
        """The message that an Any holds, out of a TypedStruct if it is in one."""
        if isinstance(self.value, dict) and self["@type"].text().endswith(TYPED_STRUCTS):
            return self["value"]
        return self

    def type(self) -> str:
        """The full name of the message that an Any holds, "" if it does not say."""
        if not isinstance(self.value, dict):
            return ""
        name = self["@type"].text()
        if name.endswith(TYPED_STRUCTS):
            name = self["type_url"].text()
        return name.rpartition("/")[2]

    def _unwrapped(self, zero: Any) -> Any:
        if isinstance(self.value, dict):  # of a message, JSON leaves out what is zero
            return self["value"].value if self["value"] else zero
        return self.value


ABSENT = Node(None)


def join(path: str, name: str) -> str:
    """The path of a field or of a map's entry."""
    name = str(name)
    if not _PLAIN.fullmatch(name):
        return f'{path}["{name}"]'
    return f"{path}.{name}" if path else name
