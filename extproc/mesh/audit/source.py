"""Text in, documents out: YAML or JSON, whatever it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from extproc.config import explained
from extproc.mesh.audit.gather import Resources, from_bootstrap, from_dump, from_resource
from extproc.mesh.audit.manifests import from_manifest
from extproc.mesh.audit.node import Node

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

KNOWN = (
    "an Envoy bootstrap (static_resources), a saved /config_dump (configs), discovered resources "
    "(resources), or manifests (EnvoyFilter, EnvoyPatchPolicy, EnvoyExtensionPolicy, ConfigMap)"
)

OURS = "these are the sidecar's own settings; name them with --config"


class Unusable(Exception):
    """The input cannot be audited. The text names the place and the remedy."""


def parse(text: str, name: str) -> list[Any]:
    """The documents of a YAML or JSON text. Raises Unusable."""
    if text.lstrip().startswith(("{", "[")):
        try:
            return [json.loads(text)]
        except json.JSONDecodeError as error:
            failed = f"{name}:{error.lineno}:{error.colno}: {error.msg}"
        except RecursionError:
            raise Unusable(f"{name}: nested too deeply") from None
        if text.lstrip().startswith('{"'):
            raise Unusable(failed)  # flow style YAML may begin with a brace, too
    try:
        return [document for document in yaml.load_all(text, Loader=LOADER) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise Unusable(f"{place}: {explained(error)}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unusable(f"{name}: {' '.join(str(error).split())}") from None


def gather(documents: list[Any], name: str) -> Resources:
    """What the documents hold. Raises Unusable and Misshapen."""
    found = Resources()
    used = False
    for number, document in enumerate(documents):
        node = Node(document, f"document[{number}]" if len(documents) > 1 else "")
        taken = _take(found, node)
        used = taken or used
        if not taken and _is_ours(document):
            found.notes.append(f"{node.path}: {OURS}")
    if not used:
        if any(map(_is_ours, documents)):
            raise Unusable(f"{name}: {OURS}, beside Envoy's")
        keys = ", ".join(dict.fromkeys(_keys(documents))) or "nothing"
        raise Unusable(f"{name}: holds {keys}; an audit reads {KNOWN}")
    return found


def _is_ours(document: Any) -> bool:
    return isinstance(document, dict) and "kind" not in document and "units" in document


def _keys(documents: list[Any]) -> Iterator[str]:
    for document in documents[:3]:
        if isinstance(document, dict):
            yield from (
                str(document["kind"]) if "kind" in document else str(key)
                for key in list(document)[:6]
            )
        else:
            yield f"a {type(document).__name__}"


_BOOTSTRAP = ("static_resources", "dynamic_resources", "bootstrap_extensions", "layered_runtime")


def _take(found: Resources, node: Node) -> bool:
    if isinstance(node.value, list):
        return _each(_take, found, node.items())
    if not isinstance(node.value, dict):
        return False
    if node["configs"]:
        from_dump(found, node)
        return True
    if any(node[name] for name in _BOOTSTRAP):
        from_bootstrap(found, node)
        return True
    if node["resources"]:
        found.whole = False
        return _each(from_resource, found, node["resources"].items())
    if node.key("kind") and node["api_version"]:
        found.whole = False
        return from_manifest(found, node, _take, parse)
    if node.type():
        found.whole = False
        return from_resource(found, node)
    return False


def _each(take: Callable[[Resources, Node], bool], found: Resources, nodes: list[Node]) -> bool:
    """Takes in all of them; whether any was of use."""
    return sum(take(found, node) for node in nodes) > 0
