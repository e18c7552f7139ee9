"""The trained part of the salad detector: tables and weights from the package's data file.

``salad.bin.xz`` is made by bench/salad_build.py from natural text and from salad alone; what it
holds is described there. It is read once, at first use, and shared.
"""

from __future__ import annotations

import json
import lzma
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from extproc.detect.salad.features import Tables, features, lanes

DATA = "salad.bin.xz"


@dataclass(frozen=True, slots=True)
class Model:
    """A small network: standardised features, one hidden layer, one log odds."""

    tables: Tables
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    hidden: NDArray[np.float32]
    hidden_bias: NDArray[np.float32]
    out: NDArray[np.float32]
    out_bias: float

    CLIP = 5.0

    def score(self, text: str) -> float | None:
        """Log odds that a window is salad; None where the statistics do not apply."""
        vector = features(text, self.tables)
        return None if vector is None else self.log_odds(vector)

    def log_odds(self, vector: NDArray[np.float32]) -> float:
        """The network's output for a vector of features."""
        x = (vector - self.mean) / self.scale
        np.minimum(x, self.CLIP, out=x)
        np.maximum(x, -self.CLIP, out=x)
        hidden = x @ self.hidden
        hidden += self.hidden_bias
        np.maximum(hidden, 0, out=hidden)
        return float(hidden @ self.out) + self.out_bias


def unpack(data: bytes) -> Model:
    """The model of a data file: a line of JSON (names, types and shapes), then the arrays."""
    raw = lzma.decompress(data)
    end = raw.index(b"\n")
    header = json.loads(raw[:end])
    arrays: dict[str, NDArray[np.generic]] = {}
    at = end + 1
    for name, kind, shape in header["arrays"]:
        count = math.prod(shape)
        array = np.frombuffer(raw, np.dtype(kind), count, at).reshape(shape)
        arrays[name] = array
        at += array.nbytes
    packed = arrays["surprise"].astype(np.uint8)
    surprise = np.empty((packed.shape[1], 2 * packed.shape[0]), np.uint8)
    surprise[:, ::2] = packed.T & 15
    surprise[:, 1::2] = packed.T >> 4

    def floats(name: str) -> NDArray[np.float32]:
        return arrays[name].astype(np.float32)

    return Model(
        Tables(
            lanes(surprise[:, : len(header["languages"])]),
            {word: i for i, word in enumerate(header["common"])},
            arrays["pairs"].tolist(),
        ),
        floats("mean"),
        floats("scale"),
        floats("hidden"),
        floats("hidden_bias"),
        floats("out"),
        float(header["out_bias"]),
    )


@lru_cache(maxsize=1)
def model() -> Model:
    """The package's model."""
    return unpack(resources.files("extproc.detect.salad").joinpath(DATA).read_bytes())
