"""A GGUF file -> a folder that vLLM serves: safetensors, tokenizer, configuration.

Run by the Python that has vLLM: ``python tests/vllm/convert.py MODEL.gguf FOLDER [--nan TENSOR]``.
``--nan`` makes the first element of one weight NaN, as a bad cast leaves it.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def convert(source: Path, target: Path, nan: str) -> None:
    """Writes the folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    unpacked = GgufConfig(dequantize=True)
    read = AutoModelForCausalLM.from_pretrained(
        **where, dtype=torch.bfloat16, quantization_config=unpacked
    )
    weights = read.state_dict()
    if nan:
        weights[nan].view(-1)[0] = float("nan")
    # What was read counts as quantized, which cannot be saved: a fresh model takes its weights.
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    model = AutoModelForCausalLM.from_config(read.config, dtype=torch.bfloat16)
    model.load_state_dict(weights)
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(**where).save_pretrained(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--nan", default="", help="e.g. model.layers.15.input_layernorm.weight")
    chosen = parser.parse_args()
    convert(chosen.source, chosen.target, chosen.nan)


if __name__ == "__main__":
    main()
