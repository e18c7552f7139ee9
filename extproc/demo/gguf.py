"""A corrupt copy of a model file: a weight is NaN, or a matrix too large, as a bad kernel or a bad
cast leaves it.

GGUF, version 2 and later: a header, key-value metadata, the table of tensors, then aligned data
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Only the few bytes that differ are
written; the rest of the copy is the file system's work.

The demo makes two edits. *The weight*: the first element of one layer's norm becomes NaN; from
there it spreads to every logit, and the sampler does whatever it does when nothing compares.
*The vocabulary*: token 0 becomes "!", as in the Qwen family, so that the sampler's answer to NaN
(token 0) reads ``!!!!``, as it does for people who meet this fault.
"""

from __future__ import annotations

import math
import mmap
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"GGUF"
F32 = 0
NAN = struct.pack("<f", math.nan)
_STRING, _ARRAY, _ALIGNMENT = 8, 9, 32
_SCALES = {2: 1, 3: 2, 6: 1, 7: 2, 8: 1}
"""Of a quantized ggml type: how many 16-bit floats a block begins with, by which its elements are
multiplied (and shifted)."""
_F16_MAX = 65504.0
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34)}
"""Of a ggml type: elements in a block, and the block's bytes. In order: F32, F16, Q4_0, Q4_1, Q5_0,
Q5_1, Q8_0."""

Edit = tuple[int, bytes]
"""Where in the file, and what to write there."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One row of the tensor table. ``at`` is the absolute offset of its data."""

    kind: int
    shape: tuple[int, ...]
    at: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: of one token, in an embedding."""
        if self.kind not in _BLOCKS:
            raise ValueError(f"ggml type {self.kind} is not known here")
        elements, size = _BLOCKS[self.kind]
        return self.shape[0] // elements * size


class Gguf:
    """The layout of a GGUF file: where each metadata value and each tensor stands.

    Raises ``ValueError`` for a file that is not GGUF or ends too soon.
    """

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self.metadata: dict[str, tuple[int, int]] = {}
        """Key -> (value type, offset of the value)."""
        self.tensors: dict[str, Tensor] = {}
        if data[:4] != MAGIC:
            raise ValueError("not a GGUF file")
        try:
            self._read()
        except (struct.error, KeyError) as error:
            raise ValueError(f"a GGUF file that cannot be read: {error!r}") from error

    def strings(self, key: str) -> Iterator[tuple[int, bytes]]:
        """The offset and the encoded form (length and bytes) of each string of an array."""
        at = self.metadata[key][1]
        _, count = self._unpack("<IQ", at)
        at += 12
        for _ in range(count):
            end = self._after(_STRING, at)
            yield at, self._data[at:end]
            at = end

    def uint32(self, key: str) -> int:
        """A metadata value of four bytes."""
        return int(self._unpack("<I", self.metadata[key][1])[0])

    def slice(self, at: int, size: int) -> bytes:
        """Bytes of the file."""
        return bytes(self._data[at : at + size])

    def _read(self) -> None:
        _, tensors, pairs = self._unpack("<IQQ", 4)
        at = 24
        for _ in range(pairs):
            key, at = self._string(at)
            (kind,) = self._unpack("<I", at)
            self.metadata[key] = (kind, at + 4)
            at = self._after(kind, at + 4)
        rows = []
        for _ in range(tensors):
            name, at = self._string(at)
            (dimensions,) = self._unpack("<I", at)
            shape = self._unpack(f"<{dimensions}Q", at + 4)
            at += 4 + 8 * dimensions
            kind, offset = self._unpack("<IQ", at)
            rows.append((name, kind, shape, offset))
            at += 12
        aligned = "general.alignment"
        alignment = self.uint32(aligned) if aligned in self.metadata else _ALIGNMENT
        start = -(-at // alignment) * alignment
        self.tensors = {
            name: Tensor(kind, shape, start + offset) for name, kind, shape, offset in rows
        }

    def _unpack(self, form: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self._data, at)

    def _string(self, at: int) -> tuple[str, int]:
        end = self._after(_STRING, at)
        return self._data[at + 8 : end].decode("utf-8", "replace"), end

    def _after(self, kind: int, at: int) -> int:
        if kind == _STRING:
            return at + 8 + self._unpack("<Q", at)[0]
        if kind != _ARRAY:
            return at + _SCALAR_BYTES[kind]
        element, count = self._unpack("<IQ", at)
        at += 12
        if element in _SCALAR_BYTES:
            return at + _SCALAR_BYTES[element] * count
        for _ in range(count):
            at = self._after(element, at)
        return at


def nan_weight(model: Gguf, tensor: str) -> Iterator[Edit]:
    """The first element of ``tensor`` (32-bit floats) becomes NaN."""
    found = model.tensors[tensor]
    if found.kind != F32:
        raise ValueError(f"{tensor} does not hold 32-bit floats")
    yield found.at, NAN


def scaled(model: Gguf, tensor: str, factor: float) -> Iterator[Edit]:
    """``tensor``, quantized in blocks, becomes ``factor`` times what it was.

    By 40 a matrix makes word salad of finite numbers; by thousands what it computes leaves the
    range of 16-bit floats, and a cache that holds them holds infinities.
    """
    found = model.tensors[tensor]
    if found.kind not in _SCALES:
        raise ValueError(f"{tensor} is not quantized in blocks that are known here")
    elements, size = _BLOCKS[found.kind]
    form = f"<{_SCALES[found.kind]}e"
    for block in range(math.prod(found.shape) // elements):
        at = found.at + block * size
        scales = struct.unpack(form, model.slice(at, struct.calcsize(form)))
        bounded = [max(-_F16_MAX, min(_F16_MAX, scale * factor)) for scale in scales]
        yield at, struct.pack(form, *bounded)


def token_zero(model: Gguf, text: str = "!") -> Iterator[Edit]:
    """``text`` and token 0 change places: in the vocabulary, in its types, in the embeddings."""
    wanted = struct.pack("<Q", len(text.encode())) + text.encode()
    strings = []
    for at, encoded in model.strings("tokenizer.ggml.tokens"):
        strings.append((at, encoded))
        if encoded == wanted:
            break
    else:
        raise ValueError(f"{text!r} is no token of this model")
    other = len(strings) - 1
    first = strings[0][0]
    strings[0], strings[other] = strings[other], strings[0]
    yield first, b"".join(encoded for _, encoded in strings)  # as long as before
    types = model.metadata["tokenizer.ggml.token_type"][1] + 12
    yield from _swap(model, types, types + 4 * other, 4)
    for key in model.metadata:
        if (
            key.startswith("tokenizer.ggml.")
            and key.endswith("_token_id")
            and not model.uint32(key)
        ):
            yield model.metadata[key][1], struct.pack("<I", other)
    for name in ("token_embd.weight", "output.weight"):
        if (rows := model.tensors.get(name)) is not None:
            yield from _swap(model, rows.at, rows.at + other * rows.row_bytes, rows.row_bytes)


def corrupt_copy(source: Path, target: Path, tensor: str = "blk.15.attn_norm.weight") -> None:
    """Writes a corrupt copy of the model ``source`` to ``target``: a NaN in ``tensor``."""
    edited_copy(source, target, token_zero, lambda model: nan_weight(model, tensor))


def edited_copy(source: Path, target: Path, *changes: Callable[[Gguf], Iterable[Edit]]) -> None:
    """Writes a copy of the model ``source`` with ``changes`` to ``target``."""
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        model = Gguf(data)
        edits = [edit for change in changes for edit in change(model)]
    shutil.copyfile(source, target)
    with target.open("r+b") as copy:
        for at, changed in edits:
            copy.seek(at)
            copy.write(changed)


def _swap(model: Gguf, one: int, other: int, size: int) -> Iterator[Edit]:
    yield one, model.slice(other, size)
    yield other, model.slice(one, size)
