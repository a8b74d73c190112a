"""The records that the doctor's readers and its diagnosis share."""

from proxy.vllm.doctor.evidence import EvidenceLine, OomEvent, Phase


def test_the_phases_are_the_closed_set_of_the_contract() -> None:
    assert {str(phase) for phase in Phase} == {
        "startup_weights",
        "startup_memory_taken",
        "startup_no_kv_cache",
        "startup_kv_below_one_request",
        "startup_warmup",
        "startup_graph_capture",
        "startup_profiling",
        "prefill",
        "multimodal_encoder",
        "logits",
        "lora",
        "kv_exhaustion",
        "decode",
        "fragmentation",
        "host_memory",
        "shared_memory",
        "not_oom",
        "unknown",
    }


def test_the_drivers_bare_message_is_an_event_without_sizes() -> None:
    line = EvidenceLine("vllm.log", 1, "RuntimeError: CUDA error: out of memory")
    assert not OomEvent(line, spelling="cuda error").sized
    assert OomEvent(line, spelling="torch", requested=0).sized
