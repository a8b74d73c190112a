from __future__ import annotations

from typing import Any

import pytest

from proxy.vllm.launch_plan.config_fields import ConfigFields
from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.quantization import (
    WeightFormat,
    dtype_bytes,
    format_in_file,
    kv_element_bytes,
    named_format,
)
from proxy.vllm.launch_plan.shape import Kind

COMPRESSED = {"group_0": {"weights": {"num_bits": 4, "group_size": 128}}}


def in_file(**section: object) -> WeightFormat:
    return format_in_file(ConfigFields(section, "config.json: quantization_config"), 2)


@pytest.mark.parametrize(
    ("section", "bits"),
    [
        ({"quant_method": "fp8"}, 8),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4.15625),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4.15625),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8.0234375),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
        ({"quant_method": "compressed-tensors", "config_groups": COMPRESSED}, 4.125),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5),
    ],
)
def test_bits_of_a_weight_with_its_scales(section: dict[str, Any], bits: float) -> None:
    assert in_file(**section).bytes_of(Kind.EXPERT) * 8 == bits


def test_embeddings_stay_in_the_models_own_type() -> None:
    assert in_file(quant_method="awq").bytes_of(Kind.PLAIN) == 2


def test_mxfp4_touches_experts_only() -> None:
    assert in_file(quant_method="mxfp4").bytes_of(Kind.LINEAR) == 2


def test_an_unknown_method_in_the_file_is_said_not_guessed() -> None:
    with pytest.raises(PlanError, match="'aqlm' weights is not known; say it with --weights SIZE"):
        in_file(quant_method="aqlm")


def test_wrong_names_get_the_right_ones() -> None:
    with pytest.raises(PlanError, match="--quantization 'q4' is none of none, awq"):
        named_format("q4", 2)
    with pytest.raises(PlanError, match="dtype 'bf15' is none of auto"):
        dtype_bytes("bf15")
    with pytest.raises(PlanError, match="--kv-cache-dtype 'fp7' is none of auto"):
        kv_element_bytes("fp7", 2)


def test_the_kv_cache_has_the_models_type_unless_it_is_told_otherwise() -> None:
    assert (kv_element_bytes("auto", 4), kv_element_bytes("fp8", 2)) == (4, 1)


def test_no_quantization_by_name_is_none() -> None:
    assert named_format("none", 2) == WeightFormat(None, 2)
