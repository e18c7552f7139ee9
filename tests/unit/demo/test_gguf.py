"""The corrupt copy differs from the model in exactly the bytes that make the fault."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from extproc.demo.gguf import Gguf, corrupt_copy, nan_weight, token_zero

TOKENS = ["<s>", "a", "!", "of"]
TYPES = [3, 1, 1, 1]
NORM = [1.0, 2.0, 3.0, 4.0]
ROWS = [[10.0 * token + column for column in range(4)] for token in range(4)]
EMBEDDING, WEIGHT = "token_embd.weight", "blk.0.norm.weight"


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


def make(alignment: int | None = 64, norm_kind: int = 0) -> bytes:
    """A tiny model: four tokens, an embedding and one norm, all 32-bit floats."""
    strings = b"".join(map(text, TOKENS))
    pairs = [
        pair("general.name", 8, text("tiny")),
        pair("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 4) + strings),
        pair("tokenizer.ggml.token_type", 9, struct.pack("<IQ4i", 5, 4, *TYPES)),
        pair("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 0)),
        pair("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 3)),
        pair("nested", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ2H", 2, 2, 7, 8)),
    ]
    if alignment is not None:
        pairs.insert(0, pair("general.alignment", 4, struct.pack("<I", alignment)))
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, len(pairs)) + b"".join(pairs)
    head += tensor(EMBEDDING, (4, 4), 0, 0) + tensor(WEIGHT, (4,), norm_kind, 128)
    head += bytes(-len(head) % (alignment or 32))
    rows = struct.pack("<16f", *(value for row in ROWS for value in row))
    return head + rows.ljust(128, b"\0") + struct.pack("<4f", *NORM)


def floats(model: Gguf, name: str, count: int) -> list[float]:
    return list(struct.unpack(f"<{count}f", model.slice(model.tensors[name].at, 4 * count)))


def tokens(model: Gguf) -> list[str]:
    return [encoded[8:].decode() for _, encoded in model.strings("tokenizer.ggml.tokens")]


@pytest.mark.parametrize("alignment", [None, 32, 64])
def test_the_layout_is_found_with_any_alignment(alignment: int | None) -> None:
    model = Gguf(make(alignment))
    assert tokens(model) == TOKENS
    assert floats(model, WEIGHT, 4) == NORM
    assert floats(model, EMBEDDING, 4) == ROWS[0]
    assert model.uint32("tokenizer.ggml.eos_token_id") == 3


def test_the_copy_has_one_weight_that_is_nan(tmp_path: Path) -> None:
    source, target = tmp_path / "model.gguf", tmp_path / "copy.gguf"
    source.write_bytes(make())
    corrupt_copy(source, target, WEIGHT)
    assert source.read_bytes() == make(), "the model itself was changed"
    first, *rest = floats(Gguf(target.read_bytes()), WEIGHT, 4)
    assert math.isnan(first)
    assert rest == NORM[1:]


def test_the_copy_has_the_bang_as_token_zero_and_speaks_as_before(tmp_path: Path) -> None:
    source, target = tmp_path / "model.gguf", tmp_path / "copy.gguf"
    source.write_bytes(make())
    corrupt_copy(source, target, WEIGHT)
    copy = Gguf(target.read_bytes())
    assert tokens(copy) == ["!", "a", "<s>", "of"]
    types = copy.metadata["tokenizer.ggml.token_type"][1] + 12
    assert struct.unpack("<4i", copy.slice(types, 16)) == (1, 1, 3, 1)
    assert floats(copy, EMBEDDING, 16) == ROWS[2] + ROWS[1] + ROWS[0] + ROWS[3]
    assert copy.uint32("tokenizer.ggml.bos_token_id") == 2
    assert copy.uint32("tokenizer.ggml.eos_token_id") == 3
    assert target.stat().st_size == source.stat().st_size


def test_a_token_that_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match="no token"):
        list(token_zero(Gguf(make()), "?"))


def test_a_weight_of_another_type_is_said() -> None:
    with pytest.raises(ValueError, match="32-bit floats"):
        list(nan_weight(Gguf(make(norm_kind=1)), WEIGHT))


@pytest.mark.parametrize("cut", [0, 3, 30, 200])
def test_a_file_that_is_none_or_ends_too_soon_is_said(cut: int) -> None:
    with pytest.raises(ValueError, match="GGUF"):
        Gguf(make()[:cut])
