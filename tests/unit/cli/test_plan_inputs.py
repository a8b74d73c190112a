from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.cli.plan import plan
from proxy.cli.plan_inputs import read_request, read_traffic
from proxy.vllm.launch_plan.placement import Placement
from proxy.vllm.launch_plan.problem import PlanError
from tests.support.model_configs import config_path, config_values

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = str(config_path("llama-3-8b"))
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"


def given(**options: object) -> dict[str, Any]:
    """As click reads them, with the options' own defaults."""
    none = {name: None for each in plan.params if (name := each.name) is not None}
    defaults = {"enforce_eager": False, "headroom": 0.9, "model": LLAMA, "gpu_memory": "H100"}
    return {**none, **defaults, **options}


def folder(path: Path, name: str, total_size: object = None, **changed: object) -> str:
    (path / "config.json").write_text(json.dumps(config_values(name, **changed)))
    if total_size is not None:
        index = json.dumps({"metadata": {"total_size": total_size}})
        (path / "model.safetensors.index.json").write_text(index)
    return str(path)


@pytest.mark.parametrize(
    ("options", "placement"),
    [
        ({}, Placement(1, 1)),
        ({"gpus": 4}, Placement(4, 1)),
        ({"gpus": 8, "pipeline_parallel": 2}, Placement(4, 2)),
        ({"gpus": 8, "tensor_parallel": 2}, Placement(2, 1)),
        ({"pipeline_parallel": 2}, Placement(1, 2)),
    ],
)
def test_cards_make_one_tensor_parallel_group_unless_told(
    options: dict[str, Any], placement: Placement
) -> None:
    assert read_request(given(**options)).placement == placement


def test_a_checkpoint_in_float32_is_loaded_in_16_bits() -> None:
    assert read_request(given(model=str(config_path("gemma-2-9b")))).form.dtype_bytes == 2
    assert read_request(given(dtype="float32")).form.dtype_bytes == 4


def test_the_quantization_of_the_file_counts_and_is_no_flag() -> None:
    made = read_request(given(model=str(config_path("qwen2.5-7b-awq"))))
    assert (made.form.name, made.quantize) == ("awq", None)
    asked = read_request(given(quantization="fp8"))
    assert (asked.form.name, asked.quantize) == ("fp8", "fp8")


def test_the_index_beside_the_file_says_what_the_weights_take(tmp_path: Path) -> None:
    made = read_request(given(model=folder(tmp_path, "llama-3-8b", 16_060_522_496)))
    assert made.weights == 16_060_522_496
    assert read_request(given(model=str(tmp_path), quantization="fp8")).weights is None


@pytest.mark.parametrize("total", ["many", None, -1])
def test_an_index_that_says_nothing_is_passed_over(tmp_path: Path, total: object) -> None:
    assert read_request(given(model=folder(tmp_path, "llama-3-8b", total))).weights is None


def test_weights_of_an_unknown_format_can_be_given(tmp_path: Path) -> None:
    model = folder(tmp_path, "llama-3-8b", quantization_config={"quant_method": "aqlm"})
    with pytest.raises(PlanError, match="--weights SIZE"):
        read_request(given(model=model))
    assert read_request(given(model=model, weights="4GiB")).weights == 4 << 30


@pytest.mark.parametrize("text", ["8 bananas", "0", "-1B", "B"])
def test_a_number_of_parameters_must_be_one(text: str) -> None:
    with pytest.raises(PlanError, match="--params"):
        read_request(given(params=text))


def test_numbers_beside_a_file_are_refused() -> None:
    with pytest.raises(PlanError, match=r"--kv-heads is for a model without a config\.json"):
        read_request(given(kv_heads=8))


def test_a_repository_name_is_told_from_a_missing_file() -> None:
    with pytest.raises(PlanError, match="nothing is downloaded"):
        read_request(given(model="meta-llama/Llama-3.1-8B"))


def test_a_trace_is_read_as_replay_reads_it(tmp_path: Path) -> None:
    trace = tmp_path / "azure.csv"
    trace.write_text(AZURE)
    traffic = read_traffic(given(trace=str(trace)))
    assert traffic is not None
    assert traffic.requests == ((374, 44),)


def test_a_trace_and_percentiles_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="either --trace or"):
        read_traffic(given(trace="x", prompt_tokens="1,2"))
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    with pytest.raises(PlanError, match=r"bad\.csv, line 1"):
        read_traffic(given(trace=str(bad)))


def test_nothing_said_of_traffic_is_nothing() -> None:
    assert read_traffic(given()) is None


@pytest.mark.parametrize("data", [b"\xff\xfe\x00{", b"", b"{}"])
def test_files_that_are_no_config_get_one_line(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(data)
    with pytest.raises(PlanError) as error:
        read_request(given(model=str(file)))
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)
