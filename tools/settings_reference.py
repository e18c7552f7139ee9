"""Every setting as Markdown tables, made of the model that reads them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from extproc.config import Settings

Schema = dict[str, Any]

TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true, false",
    "null": "",
    "object": "mapping",
}

PATTERNS = {"^0?[0-7]{3}$": "octal"}


def reference() -> str:
    """One table for the settings that stand alone, and one a group."""
    schema = Settings.model_json_schema()
    definitions: dict[str, Schema] = schema["$defs"]
    alone = {
        name: field
        for name, field in schema["properties"].items()
        if _model(field, definitions) is None
    }
    parts = ["### Top level", _table("", alone, definitions)]
    for name, field in schema["properties"].items():
        if name not in alone:
            parts += _group(name, field, definitions)
    return "\n\n".join(parts)


def _group(path: str, field: Schema, definitions: dict[str, Schema]) -> list[str]:
    model = _model(field, definitions)
    if model is None:
        raise ValueError(f"{path} is no group")
    dotted = path + ("[]" if _is_list(field) else "")
    text = " ".join(model.get("description", "").replace("``", "`").split())
    parts = [f"### {dotted}", text] if text else [f"### {dotted}"]
    own = {n: f for n, f in model["properties"].items() if _model(f, definitions) is None}
    required = model.get("required", ())
    if own:
        parts.append(_table(f"{dotted}.", own, definitions, required))
    for name, inner in model["properties"].items():
        if name not in own:
            parts += _group(f"{dotted}.{name}", inner, definitions)
    return parts


def _table(
    prefix: str,
    fields: dict[str, Schema],
    definitions: dict[str, Schema],
    required: Collection[str] = (),
) -> str:
    rows = ["| setting | value | default | meaning |", "|---|---|---|---|"]
    for name, field in fields.items():
        default = "required" if name in required else _default(field.get("default"))
        cells = (f"`{prefix}{name}`", _type(field), default, field.get("description", ""))
        rows.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _default(value: Any) -> str:
    if value in (None, "", [], {}):
        return ""
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, (list, dict)):
        return f"`{json.dumps(value)}`"
    return str(value).lower() if isinstance(value, bool) else _number(value)


def _is_list(field: Schema) -> bool:
    return field.get("type") == "array"


def _choices(field: Schema) -> list[Schema]:
    return [choice for choice in field.get("anyOf", [field]) if choice.get("type") != "null"]


def _model(field: Schema, definitions: dict[str, Schema]) -> Schema | None:
    """The group that a field holds, or a list of."""
    for choice in _choices(field):
        inner = choice.get("items", choice) if _is_list(choice) else choice
        reference = inner.get("$ref", "")
        found = definitions.get(reference.rpartition("/")[2])
        if found is not None and "properties" in found:
            return found
    return None


def _type(field: Schema) -> str:
    return " or ".join(dict.fromkeys(filter(None, map(_plain, _choices(field)))))


def _plain(field: Schema) -> str:
    if "const" in field:
        return f"`{field['const']}`" if field["const"] else ""
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if _is_list(field):
        return f"list of {_plain(field.get('items', {})) or 'text'}"
    if field.get("pattern") in PATTERNS:
        return PATTERNS[field["pattern"]]
    if field.get("format") == "path":
        return "path"
    return TYPES.get(field.get("type", ""), "") + _bounds(field)


def _bounds(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    over, under = field.get("exclusiveMinimum"), field.get("exclusiveMaximum")
    words = [
        text + _number(value)
        for text, value in (("from ", low), ("above ", over), ("to ", high), ("below ", under))
        if value is not None
    ]
    return " " + ", ".join(words) if words else ""


def _number(value: float) -> str:
    return f"{value:.10f}".rstrip("0").rstrip(".")
