"""Which part of the model asked for the memory: the frames above an error, and what they mean."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.vllm.doctor.evidence import Frame, Phase
from proxy.vllm.doctor.log_line import LogLine

# A table's export doubles the quotes.
_FRAME = re.compile(r'File ""?([^"]+)""?, line \d+, in ([\w.<>]+)')
_NOTEBOOK_FRAME = re.compile(r"^File (\S+\.py):\d+, in ([\w.]+)\(")
_BEGINNING = "Traceback (most recent call last)"
MOST_FRAMES = 120
# Source and markers between two frames; with more of other lines the traceback is not this one's.
_MOST_BETWEEN = 8
# What the code of a frame names where its path and function do not tell: the part of a model that
# looks at images or hears, memory of the host that is pinned for the card, the capture of graphs.
_TELLING_CODE = re.compile(
    r"self\.(visual|vision_\w+|\w*image_\w+|audio_\w+|\w+_tower|vpm|apm)\("
    # A language model's attention goes through the engine's backends.
    r"|\bF\.(scaled_dot_product_attention)\("
    r"|\b(pin_memory|cudaHost(?:Alloc|Register))\b"
    r"|\.(capture_model)\("
)
_CODE = "code"
_METHOD = re.compile(r"(?:processing|executing) method '?(\w+)|Call to (\w+) method failed")


def frames_above(lines_upwards: Iterable[LogLine], source: str) -> tuple[Frame, ...]:
    """The traceback that ends at the first line, of the same process; the caller comes first."""
    frames: list[Frame] = []
    between = 0
    for line in lines_upwards:
        if line.source != source:
            continue
        here = _frames_in(line.text)
        frames += reversed(here)
        between = 0 if here else between + 1
        ends = _BEGINNING in line.text and bool(frames)
        if ends or between > _MOST_BETWEEN or len(frames) >= MOST_FRAMES:
            break
    return tuple(reversed(frames))


def _frames_in(text: str) -> list[Frame]:
    """Mostly one or none; some exports join a whole traceback into one line."""
    found = [*_FRAME.findall(text), *_NOTEBOOK_FRAME.findall(text)]
    frames = [Frame(path.replace("\\", "/"), function.split(".")[-1]) for path, function in found]
    code = [Frame(_CODE, "".join(named)) for named in _TELLING_CODE.findall(text)]
    return frames + code


def named_method(text: str) -> tuple[Frame, ...]:
    """The worker's method that failed, where the message names it above its traceback."""
    return tuple(Frame("vllm", first or second) for first, second in _METHOD.findall(text))


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the engine: all of `needs` must match somewhere in the traceback."""

    name: str
    phase: Phase
    needs: tuple[re.Pattern[str], ...]
    means: str
    innermost: bool = False  # only the engine's own innermost frame counts
    at_start: bool = False
    bare: bool = False  # only of an error without sizes: torch's own allocator gives sizes


def _place(
    name: str,
    phase: Phase,
    *needs: str,
    means: str,
    innermost: bool = False,
    at_start: bool = False,
    bare: bool = False,
) -> Place:
    patterns = tuple(re.compile(need) for need in needs)
    return Place(name, phase, patterns, means, innermost, at_start, bare)


# A frame is matched as "path:function". The first place whose needs are all met is the answer, so
# what is special stands before what is general.
_SAMPLING = (
    r"/(?:topk_topp_sampler|rejection_sampler|sampler|sampling_metadata|penalties)\.py:"
    r"|/v1/sample/|"
    r"/sample/ops/|:(?:_dummy_sampler_run|apply_top_k_top_p|_apply_top_k_top_p|_sample"
    r"|sample_tokens)$"
)
_LOGITS = (
    r"/logits_processor\.py:|/sample/logprob|:(?:compute_logits|_get_logits|gather_logprobs"
    r"|compute_logprobs"
    r"|_?get_prompt_logprobs_dict|compute_topk_logprobs|_get_logprobs|log_softmax)$"
)
_ENCODER = (
    r":(?:embed_multimodal|get_multimodal_embeddings|_execute_mm_encoder|execute_mm_encoder"
    r"|_process_(?:image|video|audio|vision)\w*|get_(?:image|video|audio)_(?:features|embeddings)"
    r"|encode_images|_get_mm_dummy\w*|_parse_and_validate_(?:image|video)\w*|get_encoder_outputs"
    r"|get_(?:vision|visual|image|video|audio)_\w+|get_cross_attention_states"
    r"|split_qkv|all_gather_interleave)$"
    r"|/\w*(?:siglip|clip|vision|_vit|vit_|idefics2_vision|pixtral_vision)\w*\.py:"
    r"|^code:(?!pin_memory|cudaHost|capture_model)"
)
_PROFILE = (
    r":(?:profile_run|determine_available_memory|determine_num_available_blocks"
    r"|profile_num_available_blocks)$"
)
_CAPTURE = (
    r":(?:capture_model|_?capture_cudagraphs?|capture_graphs?|capture_begin|_capture"
    r"|capture_all_graphs)$"
    r"|/torch/cuda/graphs\.py:|/compilation/cuda_graph\.py:|/cuda_piecewise_backend\.py:"
)

PLACES: tuple[Place, ...] = (
    _place(
        "pinned memory",
        Phase.HOST_MEMORY,
        r"^code:(?:pin_memory|cudaHost\w+)$|:(?:pin_memory|_pin_memory|allocate_cpu_cache)$",
        means="memory of the host was pinned for the card, and the driver calls that out of memory"
        " too; the card is not the matter",
        bare=True,
    ),
    _place(
        "lora load",
        Phase.LORA,
        r"/lora/.*:(?:create_lora_\w+|_create_lora_modules|load_lora\w*|_load_adapter"
        r"|add_(?:lora|adapter)"
        r"|activate_adapter|set_lora|from_local_checkpoint|from_lora_tensors|create_lora_manager)$",
        means="adapters were loaded or their buffers made",
    ),
    _place(
        "wake up",
        Phase.STARTUP_MEMORY_TAKEN,
        r":wake_up$",
        means="a sleeping engine took its memory back and found it used",
    ),
    _place(
        "sampler warm-up",
        Phase.STARTUP_WARMUP,
        r":(?:_dummy_sampler_run|_dummy_pooler_run\w*)$",
        means="the sampler or pooler was warmed up with max_num_seqs dummy requests",
        at_start=True,
    ),
    _place(
        "graph capture",
        Phase.STARTUP_GRAPH_CAPTURE,
        _CAPTURE,
        means="CUDA graphs were captured",
        at_start=True,
    ),
    _place(
        "KV cache allocation",
        Phase.STARTUP_NO_KV_CACHE,
        r":(?:initialize_kv_cache|initialize_kv_cache_tensors|_allocate_kv_cache\w*"
        r"|allocate_gpu_cache"
        r"|_init_cache_engine|allocate_kv_cache\w*)$|/cache_engine\.py:",
        means="the planned KV cache was allocated",
        at_start=True,
    ),
    _place(
        "encoder profiling",
        Phase.MULTIMODAL_ENCODER,
        _PROFILE,
        _ENCODER,
        means="the encoder was profiled with the largest images or videos allowed",
        at_start=True,
    ),
    _place(
        "sampler profiling",
        Phase.STARTUP_WARMUP,
        _PROFILE,
        _SAMPLING,
        means="the sampler was profiled with max_num_seqs dummy requests",
        at_start=True,
    ),
    _place(
        "profiling",
        Phase.STARTUP_PROFILING,
        _PROFILE,
        means="the profiling pass ran max_num_batched_tokens dummy tokens",
        at_start=True,
    ),
    _place(
        "warm-up",
        Phase.STARTUP_WARMUP,
        r":(?:compile_or_warm_up_model|kernel_warmup|warm_up_model|warmup_model"
        r"|flashinfer_autotune)$",
        means="the kernels were warmed up",
        at_start=True,
    ),
    _place(
        "weights",
        Phase.STARTUP_WEIGHTS,
        r":(?:load_model|_?initialize_model|load_weights|create_weights"
        r"|process_weights_after_loading)$"
        r"|/model_loader/|/model_executor/model_loader",
        means="the weights were loaded",
        at_start=True,
    ),
    _place(
        "device",
        Phase.STARTUP_MEMORY_TAKEN,
        r":(?:init_device|_init_device|init_worker_distributed_environment)$",
        means="the card was opened, before anything was loaded",
        at_start=True,
    ),
    _place(
        "encoder", Phase.MULTIMODAL_ENCODER, _ENCODER, means="images, video or audio were encoded"
    ),
    _place("logits", Phase.LOGITS, _LOGITS, means="logits or log probabilities were computed"),
    _place("sampler", Phase.LOGITS, _SAMPLING, means="the sampler ran over tokens x vocabulary"),
    _place(
        "lora layers",
        Phase.LORA,
        r"/lora/(?:ops|punica_wrapper|layers)",
        means="an adapter's layer computed",
        innermost=True,
    ),
    _place(
        "dummy run",
        Phase.STARTUP_PROFILING,
        r":_dummy_run$",
        means="a batch of dummy tokens ran, which the engine does while it starts",
        at_start=True,
    ),
    _place(
        "model",
        Phase.PREFILL,
        r":(?:execute_model|_model_forward|forward|execute_model_ray|run_engine_loop)$",
        means="the model's forward pass needed room for activations",
    ),
    # Modules are made at the start only; its traceback may have lost the loader at its top.
    _place(
        "modules",
        Phase.STARTUP_WEIGHTS,
        r"/(?:model_executor/(?:models|layers)|vllm/models)/.*:__init__$|:make_layers$",
        means="the model's layers were made, with room for their weights",
        at_start=True,
    ),
)


def place_of(frames: Sequence[Frame], *, sized: bool = True) -> Place | None:
    """What the engine was doing; None when the traceback does not tell, or there is none."""
    named = [f"{frame.path}:{frame.function}" for frame in frames]
    engine = [name for name in named if "vllm" in name]
    for place in PLACES:
        if place.bare and sized:
            continue
        among = engine[-1:] if place.innermost else named
        if all(any(need.search(name) for name in among) for need in place.needs):
            return place
    return None


def engine_of(frames: Sequence[Frame]) -> str | None:
    """V1 or V0, where a path tells."""
    paths = [frame.path for frame in frames]
    if any("vllm/v1/" in path for path in paths):
        return "V1"
    old = ("vllm/worker/", "vllm/engine/async_llm_engine", "vllm/engine/multiprocessing")
    return "V0" if any(name in path for path in paths for name in old) else None
