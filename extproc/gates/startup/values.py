"""Values of the execution path in one spelling: only real differences are differences."""

from __future__ import annotations

import re

Scalar = str | int | bool

_DTYPES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "fp16",
    "f16": "fp16",
    "half": "fp16",
    "float16": "fp16",
    "fp32": "fp32",
    "f32": "fp32",
    "float": "fp32",
    "float32": "fp32",
    "fp8": "fp8",
    "float8": "fp8",
    "fp8_e4m3": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
    "float8_e5m2": "fp8_e5m2",
}

_BACKENDS = {
    "flash_attn": "flash_attn",
    "flashattention": "flash_attn",
    "flash_attention": "flash_attn",
    "fa2": "flash_attn",
    "triton_attn": "triton",
    "triton_attn_vllm_v1": "triton",
    "flash_attn_vllm_v1": "flash_attn",
    "flashinfer_vllm_v1": "flashinfer",
}


def normal(field: str, value: Scalar) -> Scalar:
    """``value`` as it is compared and stored."""
    if not isinstance(value, str):
        return value
    text = value.strip().strip("'\"")
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if field.startswith("parallelism_") and lowered.isdecimal():
        return int(lowered)
    if "dtype" in field:
        return _DTYPES.get(lowered.removeprefix("torch."), lowered.removeprefix("torch."))
    if field.endswith("_backend"):
        name = re.sub(r"[\s-]+", "_", lowered)
        return _BACKENDS.get(name, name)
    if field == "runtime_version":
        return re.sub(r"^(vllm|sglang|tensorrt-llm)[- ]?v?(?=\d)", r"\1-", lowered)
    if field in ("quantization", "hardware"):
        return lowered
    return text
