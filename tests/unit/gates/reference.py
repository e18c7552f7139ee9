"""The end of docs/gates.md, made from the models: ``python -m tests.unit.gates.reference``."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from extproc.gates.settings import GateConfig, Matrix, Rollback, Service, SidecarAccess


def groups() -> Iterator[tuple[str, type[BaseModel]]]:
    """Every group of settings with its title."""
    for name in GateConfig.model_fields:
        yield name, type(getattr(GateConfig(), name))
    yield "[service.under_test], .baseline, .fallback, .tp.N", Service
    yield "[matrix]", Matrix
    yield "[rollback]", Rollback
    yield "[sidecar]", SidecarAccess


def reference() -> str:
    """The section."""
    lines = ["## Every setting", ""]
    for title, model in groups():
        lines += [f"**`{title}`**", "", "| setting | default | |", "|---|---|---|"]
        lines += [_row(name, field) for name, field in model.model_fields.items()]
        lines.append("")
    return "\n".join(lines)


def _row(name: str, field: FieldInfo) -> str:
    if field.is_required():
        default = "required"
    else:
        value = field.default if field.default is not PydanticUndefined else None
        default = "" if value is None or value == "" else f"`{json.dumps(value, default=str)}`"
    return f"| `{name}` | {default} | {field.description or ''} |"


if __name__ == "__main__":
    print(reference(), end="")
