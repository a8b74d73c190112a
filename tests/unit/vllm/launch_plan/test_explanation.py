from __future__ import annotations

from dataclasses import replace

from proxy.vllm.launch_plan.cards import Card
from proxy.vllm.launch_plan.explanation import assumptions, misfit, steps, warnings
from proxy.vllm.launch_plan.plan import make_plan
from proxy.vllm.launch_plan.traffic import assumed_traffic, traffic_of_requests
from tests.support.plan_requests import request


def text(name: str, card: str = "H200", **changed: object) -> str:
    made = make_plan(request(name, card, **changed))
    return "\n".join(f"{each.what}: {each.formula}: {each.numbers}" for each in steps(made))


def test_each_figure_has_its_formula_and_numbers() -> None:
    said = text("llama-3-70b", tensor=8)
    assert "80 layers x 1 KV heads x (128 + 128) x 2 B = 40,960 B" in said
    assert "70,553,706,496 parameters of 2 B, T = 8" in said
    assert "may be 0.6 to 1.6 times" in said


def test_mla_and_windows_are_explained() -> None:
    assert "576 (kv_lora_rank + qk_rope_head_dim" in text("deepseek-v2-lite")
    assert "7 groups" in text("gemma-3-27b")


def test_chunked_prefill_is_said_to_be_on() -> None:
    assert any("chunked prefill is on" in each for each in assumptions(make_plan(request())))


def test_where_the_traffic_is_from_is_said() -> None:
    guessed = assumptions(make_plan(request(traffic=assumed_traffic())))
    assert "assumed, as none was given" in guessed[0]
    traced = assumptions(make_plan(request(traffic=traffic_of_requests([(5, 6)], "trace t"))))
    assert "trace t, 1 requests" in traced[0]
    assert not any("log-normal" in each for each in traced)


def test_a_card_known_by_its_memory_gives_no_service_time_and_says_so() -> None:
    assert any("no service time" in each for each in assumptions(make_plan(request(card="80GiB"))))


def test_too_high_a_utilization_is_warned_of() -> None:
    assert any("CUDA context" in each for each in warnings(make_plan(request(utilization=0.999))))


def test_too_many_sequences_are_warned_of() -> None:
    assert any("would preempt" in each for each in warnings(make_plan(request(max_num_seqs=900))))


def test_too_short_a_length_is_warned_of() -> None:
    assert any(
        "the engine refuses" in each for each in warnings(make_plan(request(max_model_len=2048)))
    )


def test_a_tight_plan_is_warned_of() -> None:
    made = make_plan(request(card="18GiB", max_model_len=4096))
    assert any("estimates may be off" in each for each in warnings(replace(made, tight=True)))


def test_a_misfit_names_what_each_card_lacks() -> None:
    said = misfit(make_plan(replace(request("llama-3-70b"), card=Card("x", 80 << 30))))
    assert said.startswith("does not fit: each card lacks 62.")
    assert "\n" not in said
