"""Custom resources against the schemas of their CRDs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

_CRDS = Path(__file__).with_name("crds")
_ALWAYS = {"apiVersion", "kind", "metadata"}


def validate(manifest: dict[str, Any]) -> None:
    """Raises ``jsonschema.ValidationError``."""
    group, _, version = manifest["apiVersion"].partition("/")
    _validator(f"{group}_{version}_{manifest['kind']}.json").validate(manifest)


@cache
def _validator(name: str) -> jsonschema.protocols.Validator:
    # RE2 takes the flag at either place, Python only before the anchor.
    schema = json.loads((_CRDS / name).read_text().replace("^(?i)", "(?i)^"))
    schema["properties"] |= {field: {} for field in _ALWAYS}
    strict = _strict(schema)
    return jsonschema.validators.validator_for(strict)(strict)


def _strict(schema: Any) -> Any:
    """Unknown fields are refused where the schema does not keep them."""
    if isinstance(schema, list):
        return [_strict(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(value) for key, value in schema.items()}
    keeps = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not keeps:
        made["additionalProperties"] = False
    return made
