"""The trained part of the salad detector: tables and weights from the package's data file.

``salad.bin.xz`` is made by bench/salad_build.py from natural text and from salad alone; what it
holds is described there. It is read once, at first use, and shared.
"""

from __future__ import annotations

import io
import lzma
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


def pack(model: dict[str, NDArray[np.generic]]) -> bytes:
    """The data file of arrays: surprise (4 bits each), common (words joined by blanks), ..."""
    surprise = model.pop("surprise")
    languages = surprise.shape[1]
    if languages % 2:
        surprise = np.hstack((surprise, surprise[:, :1]))
    packed = (surprise[:, ::2] | (surprise[:, 1::2] << 4)).T
    buffer = io.BytesIO()
    np.savez(
        buffer,
        surprise=np.ascontiguousarray(packed),
        languages=np.array(languages),
        **model,  # type: ignore[arg-type]
    )
    return lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def unpack(data: bytes) -> Model:
    """The model of a data file."""
    with np.load(io.BytesIO(lzma.decompress(data)), allow_pickle=False) as arrays:
        packed = arrays["surprise"].T
        surprise = np.empty((packed.shape[0], 2 * packed.shape[1]), np.uint8)
        surprise[:, ::2] = packed & 15
        surprise[:, 1::2] = packed >> 4
        languages = int(arrays["languages"])
        common = str(arrays["common"]).split()
        return Model(
            Tables(
                lanes(surprise[:, :languages]),
                {word: i for i, word in enumerate(common)},
                arrays["pairs"].tolist(),
            ),
            arrays["mean"],
            arrays["scale"],
            arrays["hidden"],
            arrays["hidden_bias"],
            arrays["out"],
            float(arrays["out_bias"]),
        )


@lru_cache(maxsize=1)
def model() -> Model:
    """The package's model."""
    return unpack(resources.files("extproc.detect.salad").joinpath(DATA).read_bytes())
