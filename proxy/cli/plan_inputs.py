"""What `sluice plan` is given, read into a PlanRequest. Every complaint is one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace
from proxy.vllm.launch_plan.cards import parse_card, parse_size
from proxy.vllm.launch_plan.config_fields import ConfigFields, parse_config
from proxy.vllm.launch_plan.model_config import (
    quantization_section,
    read_model,
    shape_from_numbers,
    with_parameters,
)
from proxy.vllm.launch_plan.placement import Placement
from proxy.vllm.launch_plan.plan_request import PlanRequest
from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.quantization import (
    WeightFormat,
    dtype_bytes,
    format_in_file,
    kv_element_bytes,
    named_format,
)
from proxy.vllm.launch_plan.traffic import (
    Traffic,
    assumed_traffic,
    parse_lengths,
    traffic_of_percentiles,
    traffic_of_requests,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.vllm.launch_plan.shape import ModelShape

_CONFIG, _INDEX = "config.json", "model.safetensors.index.json"
_PARAMETERS = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmbt]?)", re.IGNORECASE)
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_NUMBERS = ("layers", "kv_heads", "head_dim", "hidden", "params")
_LARGEST_FILE = 16 << 20


def read_request(given: Mapping[str, Any]) -> PlanRequest:
    """Raises PlanError, or NotModelledError."""
    config = _config(given)
    shape = _shape(given, config)
    form = _format(given, config, shape)
    kv_dtype = given["kv_cache_dtype"] or "auto"
    card_text = given["gpu_memory"]
    if card_text is None:
        raise PlanError("--gpu is needed: a card as H100 or A100-80G, or a size as 80GiB")
    return PlanRequest(
        model=_name(given, shape),
        shape=shape,
        card=parse_card(card_text),
        form=form,
        traffic=read_traffic(given) or assumed_traffic(),
        placement=_placement(given),
        kv_dtype=kv_dtype,
        kv_element_bytes=kv_element_bytes(kv_dtype, form.dtype_bytes),
        quantize=given["quantization"],
        dtype=given["dtype"] or "auto",
        utilization=given["utilization"],
        max_model_len=given["max_model_len"],
        max_num_seqs=given["max_num_seqs"],
        max_num_batched_tokens=given["max_num_batched_tokens"],
        block_tokens=given["block_size"],
        kv_memory=_size(given, "kv_cache_memory", "--kv-cache-memory"),
        weights=_size(given, "weights", "--weights") or _checkpoint_bytes(given, shape),
        enforce_eager=given["enforce_eager"],
        headroom=given["headroom"],
        service_time_s=given["service_time"],
    )


def read_traffic(given: Mapping[str, Any]) -> Traffic | None:
    """None where nothing was said of it."""
    prompt, output, trace = given["prompt_tokens"], given["output_tokens"], given["trace"]
    if trace is not None:
        if prompt or output:
            raise PlanError("give either --trace or --prompt-tokens and --output-tokens")
        return _traced(Path(trace))
    if prompt is None and output is None:
        return None
    if prompt is None or output is None:
        raise PlanError("--prompt-tokens and --output-tokens are needed together")
    return traffic_of_percentiles(
        parse_lengths(prompt, "--prompt-tokens"),
        parse_lengths(output, "--output-tokens"),
        "the percentiles given",
    )


def _traced(path: Path) -> Traffic:
    try:
        trace = read_trace(path)
    except BadTraceError as error:
        raise PlanError(str(error)) from None
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or error}") from None
    pairs = [(each.prompt_tokens, each.output_tokens) for each in trace.arrivals]
    return traffic_of_requests(pairs, f"trace {path.name}")


def _config(given: Mapping[str, Any]) -> ConfigFields | None:
    path = given["model"]
    if path is None:
        return None
    file = Path(path)
    if file.is_dir():
        file /= _CONFIG
    if not file.exists() and re.fullmatch(r"[\w.-]+/[\w.-]+", path):
        raise PlanError(
            f"{path}: no such file; nothing is downloaded, give the config.json of the model "
            f"and its name with --model-name"
        )
    return parse_config(_text(file), str(file))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise PlanError(f"{file}: {error.strerror or error}") from None
    if len(data) > _LARGEST_FILE:
        raise PlanError(f"{file}: larger than 16 MiB, which no config.json is")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PlanError(f"{file}: not JSON: no UTF-8 text") from None


def _shape(given: Mapping[str, Any], config: ConfigFields | None) -> ModelShape:
    parameters = _parameters(given["params"])
    if config is not None:
        clash = next((name for name in _NUMBERS[:-1] if given[name] is not None), None)
        if clash is not None:
            raise PlanError(f"--{clash.replace('_', '-')} is for a model without a config.json")
        shape = read_model(config)
        return shape if parameters is None else with_parameters(shape, parameters)
    missing = [name for name in _NUMBERS if given[name] is None]
    if missing or parameters is None:
        raise PlanError(
            "no model: give its config.json, or "
            + ", ".join(f"--{name.replace('_', '-')}" for name in missing or _NUMBERS)
        )
    return shape_from_numbers(
        layers=given["layers"],
        kv_heads=given["kv_heads"],
        head_dim=given["head_dim"],
        hidden=given["hidden"],
        parameters=parameters,
        vocabulary=given["vocab"],
    )


def _parameters(text: str | None) -> int | None:
    if text is None:
        return None
    found = _PARAMETERS.fullmatch(text.strip())
    number = round(float(found[1]) * _SCALE[found[2].lower()]) if found else 0
    if number <= 0:
        raise PlanError(f"--params {text!r}: give a number of parameters, as 8.03B or 8030261248")
    return number


def _format(
    given: Mapping[str, Any], config: ConfigFields | None, shape: ModelShape
) -> WeightFormat:
    named = given["dtype"]
    size = 2  # what vLLM loads a float32 checkpoint as, and what most are in
    if named and named != "auto":
        size = dtype_bytes(named)
    elif shape.dtype != "auto":
        size = min(2, dtype_bytes(shape.dtype))
    quantize = given["quantization"]
    if quantize is not None:
        return named_format(quantize, size)
    section = quantization_section(config) if config is not None else None
    if section is None:
        return WeightFormat(None, size)
    if given["weights"] is not None:
        return WeightFormat(section.text("quant_method"), size)
    return format_in_file(section, size)


def _placement(given: Mapping[str, Any]) -> Placement:
    """Without a word on it all cards are one tensor-parallel group."""
    gpus, pipeline = given["gpus"], given["pipeline_parallel"] or 1
    tensor = given["tensor_parallel"]
    if tensor is None:
        tensor = max(1, (gpus or pipeline) // pipeline)
    if gpus is not None and tensor * pipeline > gpus:
        raise PlanError(
            f"--tensor-parallel {tensor} x --pipeline-parallel {pipeline} needs "
            f"{tensor * pipeline} cards, --gpus says {gpus}"
        )
    return Placement(tensor, pipeline)


def _name(given: Mapping[str, Any], shape: ModelShape) -> str:
    if given["model_name"]:
        return str(given["model_name"])
    path = given["model"]
    if path is None:
        return "MODEL"
    file = Path(path)
    if "/" in shape.name and not shape.name.startswith((".", "/")):
        return shape.name  # the file names the repository that it came from
    if file.is_dir():
        return str(file)
    in_a_folder = file.name == _CONFIG and file.parent != Path()
    return str(file.parent) if in_a_folder else "MODEL"


def _size(given: Mapping[str, Any], name: str, option: str) -> int | None:
    return None if given[name] is None else parse_size(given[name], option)


def _checkpoint_bytes(given: Mapping[str, Any], shape: ModelShape) -> int | None:
    """What the weight files beside the config.json hold together, where an index says it and they
    are loaded as they are."""
    changed = given["quantization"] or given["params"] or given["dtype"] not in (None, "auto")
    if given["model"] is None or changed or shape.dtype in ("float32", "auto"):
        return None
    folder = Path(given["model"])
    index = (folder if folder.is_dir() else folder.parent) / _INDEX
    if not index.is_file():
        return None
    try:
        size = json.loads(_text(index))["metadata"]["total_size"]
    except (PlanError, ValueError, KeyError, TypeError):
        return None
    return int(size) if isinstance(size, int | float) and size > 0 else None
