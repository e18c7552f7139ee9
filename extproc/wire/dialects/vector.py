"""One embedding in any of its layouts -> Vector."""

from __future__ import annotations

import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extproc.wire.dialects.base import objects
from extproc.wire.events import Event, Form, Layer, Malformed, Vector


def vector(position: int, value: Any, out: list[Event], form: Form | None = None) -> None:
    """Appends the Vector of ``value``, or Malformed when it is none. ``form`` overrides."""
    try:
        if type(value) is str:
            out.append(_base64(position, value))
        elif type(value) is list:
            out.append(_list(position, value, form))
        elif type(value) is dict:
            out.append(_sparse(position, value))
        elif value is None:
            out.append(Vector(position, b"", (0,), Form.FLOAT, nulls=1))
        else:
            raise TypeError
    except (TypeError, ValueError, OverflowError, RecursionError):
        out.append(Malformed(Layer.SCHEMA, f"embedding {position}"))


def _made(
    position: int, values: NDArray[np.float64], form: Form, nulls: int, shape: tuple[int, ...] = ()
) -> Vector:
    broken = int(values.size - np.count_nonzero(np.isfinite(values)))
    return Vector(
        position, values.tobytes(), shape or (values.size,), form, nulls, max(0, broken - nulls)
    )


def _array(values: list[Any]) -> NDArray[np.float64]:
    """Numbers and nulls as float64. Raises for anything else."""
    if not all(type(v) in (float, int) or v is None for v in values):
        raise TypeError
    return np.array(values, dtype="<f8")


def _list(position: int, value: list[Any], form: Form | None) -> Vector:
    shape: tuple[int, ...] = ()
    if value and type(value[0]) is dict:  # TEI, sparse: [{"index": 7, "value": 0.3}]
        value = [item.get("value") for item in objects(value)]
        form = Form.SPARSE
    elif value and type(value[0]) is list:  # a vector for each token, or one in brackets
        rows, value = value, [number for row in value for number in row]
        if len(rows) > 1 and len(rows) * len(rows[0]) == len(value):
            shape = (len(rows), len(rows[0]))
    if form is None:
        form = Form.INTEGER if value and all(type(v) is int for v in value) else Form.FLOAT
    return _made(position, _array(value), form, value.count(None), shape)


def _sparse(position: int, value: dict[str, Any]) -> Vector:
    weights = value.get("values")
    weights = weights if type(weights) is list else list(value.values())
    return _made(position, _array(weights), Form.SPARSE, weights.count(None))


def _base64(position: int, value: str) -> Vector:
    data = binascii.a2b_base64(value)
    if len(data) % 4:  # not float32: quantised to bytes
        return _made(position, np.frombuffer(data, dtype=np.int8).astype("<f8"), Form.INTEGER, 0)
    with np.errstate(all="ignore"):
        values = np.frombuffer(data, dtype="<f4").astype("<f8")
    return _made(position, values, Form.BASE64, 0)
