"""What a traceback says about where memory was asked for."""

import pytest

from proxy.vllm.doctor.evidence import Frame, Phase
from proxy.vllm.doctor.log_line import LogLine
from proxy.vllm.doctor.tracebacks import PLACES, engine_of, frames_above, named_method, place_of

V1 = "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py"
WORKER = "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py"
MODEL = "/opt/venv/lib/python3.12/site-packages/vllm/model_executor/models/llama.py"
TORCH = "/opt/venv/lib/python3.12/site-packages/torch/nn/functional.py"


def frames(*calls: tuple[str, str]) -> tuple[Frame, ...]:
    return tuple(Frame(path, function) for path, function in calls)


EXAMPLES = {
    "pinned memory": frames(("/x/vllm/worker/cache_engine.py", "allocate_cpu_cache")),
    "lora load": frames(
        (WORKER, "load_model"), ("/x/vllm/lora/worker_manager.py", "create_lora_manager")
    ),
    "wake up": frames(("/x/vllm/device_allocator/cumem.py", "wake_up")),
    "sampler warm-up": frames(
        (WORKER, "compile_or_warm_up_model"), (V1, "_dummy_sampler_run"), (TORCH, "forward")
    ),
    "graph capture": frames((WORKER, "compile_or_warm_up_model"), (V1, "capture_model")),
    "KV cache allocation": frames((V1, "initialize_kv_cache_tensors")),
    "encoder profiling": frames((V1, "profile_run"), ("/x/vllm/models/q.py", "embed_multimodal")),
    "sampler profiling": frames(
        ("/x/vllm/worker/worker.py", "determine_num_available_blocks"),
        ("/x/vllm/model_executor/layers/sampler.py", "forward"),
    ),
    "profiling": frames((V1, "profile_run"), (MODEL, "forward")),
    "warm-up": frames((WORKER, "compile_or_warm_up_model"), ("/x/vllm/warmup.py", "kernel_warmup")),
    "weights": frames((WORKER, "load_model"), (MODEL, "__init__"), (TORCH, "empty")),
    "device": frames((WORKER, "init_device")),
    "encoder": frames((V1, "execute_model"), (V1, "_execute_mm_encoder")),
    "logits": frames((V1, "execute_model"), (MODEL, "compute_logits")),
    "sampler": frames((V1, "execute_model"), ("/x/vllm/v1/sample/sampler.py", "forward")),
    "lora layers": frames(
        (V1, "execute_model"), ("/x/vllm/lora/layers.py", "apply"), (TORCH, "linear")
    ),
    "dummy run": frames((V1, "_dummy_run"), (MODEL, "forward")),
    "model": frames((V1, "execute_model"), (MODEL, "forward"), (TORCH, "silu")),
    "modules": frames((MODEL, "make_layers"), (MODEL, "__init__"), (TORCH, "empty")),
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_every_place_is_told_by_its_example(place: object) -> None:
    name = place.name  # type: ignore[attr-defined]
    found = place_of(EXAMPLES[name], sized=not place.bare)  # type: ignore[attr-defined]
    assert found is place


def test_torchs_own_message_with_sizes_is_never_about_pinned_memory() -> None:
    place = place_of(EXAMPLES["pinned memory"])
    assert place is not None
    assert place.phase is Phase.STARTUP_NO_KV_CACHE


@pytest.mark.parametrize(
    "code",
    [
        "    video_embeds = self.visual(pixel_values_videos, grid_thw=grid_thw)",
        "    image_features = self.vision_tower(pixel_values)",
        "    cross_attention_states = self.vision_model(pixel_values, aspect_ratio_ids)",
        "    audio_features = self.audio_tower(mel)",
        "    output_i = F.scaled_dot_product_attention(q_i, k_i, v_i, dropout_p=0.0)",
    ],
)
def test_a_line_of_code_tells_of_an_encoder_where_its_frame_does_not(code: str) -> None:
    upwards = [LogLine(code), LogLine('  File "/x/vllm_ascend/models/q.py", line 3, in forward')]
    place = place_of(frames_above(upwards, ""))
    assert place is not None
    assert place.phase is Phase.MULTIMODAL_ENCODER


def test_a_frame_with_doubled_quotes_is_read() -> None:
    line = LogLine('"ERROR 07-02 01:08:20 [a.py:67] File ""/x/vllm/a.py"", line 2, in load_model"')
    assert frames_above([line], "") == (Frame("/x/vllm/a.py", "load_model"),)


def test_a_traceback_of_somebody_else_has_no_place() -> None:
    assert place_of(frames(("/x/app/main.py", "handler"))) is None
    assert place_of(()) is None


def test_frames_are_taken_from_the_same_process_up_to_the_traceback() -> None:
    upwards = [
        LogLine('  File "/b.py", line 2, in inner', "(A pid=1)"),
        LogLine('  File "/other.py", line 2, in other', "(B pid=2)"),
        LogLine("Traceback (most recent call last):", "(B pid=2)"),
        LogLine('  File "/a.py", line 1, in outer', "(A pid=1)"),
        LogLine("Traceback (most recent call last):", "(A pid=1)"),
        LogLine('  File "/older.py", line 1, in older', "(A pid=1)"),
    ]
    found = frames_above(upwards, "(A pid=1)")
    assert found == (Frame("/a.py", "outer"), Frame("/b.py", "inner"))


def test_a_traceback_that_an_export_joined_into_one_line_is_read() -> None:
    line = LogLine(
        'Traceback (most recent call last): File "/a.py", line 1, in f File "/b.py", line 2, in g'
    )
    assert [frame.function for frame in frames_above([line], "")] == ["f", "g"]


def test_an_older_traceback_further_up_is_not_taken() -> None:
    talk = [LogLine("INFO all is well")] * 20
    assert frames_above([*talk, LogLine('  File "/a.py", line 1, in old')], "") == ()


def test_the_method_that_a_message_names_counts_as_a_frame() -> None:
    text = "Exception in worker X while processing method determine_num_available_blocks: CUDA out"
    assert [frame.function for frame in named_method(text)] == ["determine_num_available_blocks"]


def test_paths_tell_the_engine() -> None:
    assert engine_of(frames((V1, "f"))) == "V1"
    assert engine_of(frames(("/x/vllm/worker/model_runner.py", "f"))) == "V0"
    assert engine_of(frames((TORCH, "f"))) is None
    assert Phase.PREFILL in {place.phase for place in PLACES}


def test_the_call_that_captures_graphs_tells_of_them_where_its_frames_are_lost() -> None:
    upwards = [
        LogLine("    cuda_graph_memory_bytes = self.model_runner.capture_model()"),
        LogLine(f'  File "{WORKER}", line 404, in compile_or_warm_up_model'),
    ]
    place = place_of(frames_above(upwards, ""))
    assert place is not None
    assert place.phase is Phase.STARTUP_GRAPH_CAPTURE
