"""How many bits a weight takes in each format, with the scales that belong to it.

bits = weight bits + scale bits / weights that share a scale
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.shape import Kind

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.config_fields import ConfigFields

DTYPE_BYTES = {
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "fp16": 2,
    "half": 2,
    "float32": 4,
    "fp32": 4,
    "float": 4,
}
# What one element of the KV cache takes, as `--kv-cache-dtype` names it.
KV_DTYPE_BYTES = {
    "bfloat16": 2,
    "float16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
}
_GROUP = 128
_SCALE_AND_ZERO_BITS = 20  # a 16-bit scale and a 4-bit zero point
_BY_NAME: dict[str, float] = {
    "fp8": 8,
    "fbgemm_fp8": 8,
    "modelopt": 8,
    "ptpc_fp8": 8,
    "int8": 8,
    "w8a8": 8,
    "awq": 4 + _SCALE_AND_ZERO_BITS / _GROUP,
    "awq_marlin": 4 + _SCALE_AND_ZERO_BITS / _GROUP,
    "gptq": 4 + _SCALE_AND_ZERO_BITS / _GROUP,
    "gptq_marlin": 4 + _SCALE_AND_ZERO_BITS / _GROUP,
    "int4": 4 + _SCALE_AND_ZERO_BITS / _GROUP,
    "w4a16": 4 + _SCALE_AND_ZERO_BITS / _GROUP,
    "bitsandbytes": 4 + 32 / 64,  # a 32-bit scale for 64 weights
    "bnb": 4 + 32 / 64,
    "mxfp4": 4 + 8 / 32,
    "nvfp4": 4 + 8 / 16,
    "modelopt_fp4": 4 + 8 / 16,
}
_ONLY_EXPERTS = {"mxfp4", "experts_int8"}
NO_QUANTIZATION = ("none", "")


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Bytes of one parameter, by kind. `name` is the quantization's, None without one."""

    name: str | None
    dtype_bytes: int
    quantized_bits: float | None = None
    only_experts: bool = False

    def bytes_of(self, kind: Kind) -> float:
        quantized = kind is Kind.EXPERT or (kind is Kind.LINEAR and not self.only_experts)
        if self.quantized_bits is None or not quantized:
            return self.dtype_bytes
        return self.quantized_bits / 8


def dtype_bytes(name: str) -> int:
    try:
        return DTYPE_BYTES[name.lower().removeprefix("torch.")]
    except KeyError:
        raise PlanError(
            f"dtype {name!r} is none of auto, {', '.join(sorted(DTYPE_BYTES))}"
        ) from None


def kv_element_bytes(name: str, model_dtype_bytes: int) -> int:
    if name == "auto":
        return model_dtype_bytes
    try:
        return KV_DTYPE_BYTES[name]
    except KeyError:
        raise PlanError(
            f"--kv-cache-dtype {name!r} is none of auto, {', '.join(sorted(KV_DTYPE_BYTES))}"
        ) from None


def named_format(name: str, dtype: int) -> WeightFormat:
    """`--quantization NAME`, of a checkpoint or while loading."""
    plain = name.lower().replace("compressed-tensors", "compressed_tensors")
    if plain in NO_QUANTIZATION:
        return WeightFormat(None, dtype)
    if plain not in _BY_NAME:
        raise PlanError(
            f"--quantization {name!r} is none of none, {', '.join(sorted(_BY_NAME))}; "
            f"--weights SIZE says what the weights take in any other"
        )
    return WeightFormat(plain, dtype, _BY_NAME[plain], plain in _ONLY_EXPERTS)


def format_in_file(section: ConfigFields, dtype: int) -> WeightFormat:
    """From `quantization_config`: the checkpoint is stored so."""
    method = (section.text("quant_method") or "").lower().replace("_", "-")
    if method == "bitsandbytes":
        eight = section.flag("load_in_8bit", False) or section.flag("_load_in_8bit", False)
        return WeightFormat("bitsandbytes", dtype, 8.0 if eight else _BY_NAME["bitsandbytes"])
    if method in {"awq", "gptq"}:
        return WeightFormat(method, dtype, _grouped_bits(section))
    if method == "compressed-tensors":
        return WeightFormat(method, dtype, _compressed_bits(section))
    if method == "modelopt":
        algorithm = str(section.raw("quant_algo") or _nested_algorithm(section)).upper()
        name = "modelopt_fp4" if "FP4" in algorithm else "modelopt"
        return WeightFormat(name, dtype, _BY_NAME[name])
    name = method.replace("-", "_")
    if name in _BY_NAME:
        return WeightFormat(name, dtype, _BY_NAME[name], name in _ONLY_EXPERTS)
    raise PlanError(
        f"{section.place}: the size of {method or 'an unnamed method'!r} weights is not known; "
        f"say it with --weights SIZE, or --quantization"
    )


def _grouped_bits(section: ConfigFields) -> float:
    bits = section.whole_or_none("bits", "w_bit") or 4
    group = section.raw("group_size", "q_group_size")
    group = group if isinstance(group, int) and group > 0 else 1024  # -1: a scale for each column
    return bits + (16 + bits) / group


def _compressed_bits(section: ConfigFields) -> float:
    groups = section.object("config_groups")
    first = next(iter(groups.values.values()), None) if groups else None
    weights = first.get("weights") if isinstance(first, dict) else None
    bits = weights.get("num_bits") if isinstance(weights, dict) else None
    if not isinstance(bits, int) or not isinstance(weights, dict):
        raise PlanError(f"{section.place}: no config_groups that say the weights' num_bits")
    group = weights.get("group_size")
    return bits + (16 / group if isinstance(group, int) and group > 0 else 0.0)


def _nested_algorithm(section: ConfigFields) -> object:
    inner = section.object("quantization")
    return inner.raw("quant_algo") if inner else "FP8"
