from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.vllm.launch_plan.cards import Card
from proxy.vllm.launch_plan.plan import LaunchPlan, make_plan
from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.sluice_limits import seats_below
from proxy.vllm.launch_plan.traffic import Lengths, traffic_of_percentiles
from tests.support.plan_requests import request

GIB = 1 << 30


def plan(name: str = "llama-3-8b", card: str = "H100", **changed: object) -> LaunchPlan:
    return make_plan(request(name, card, **changed))


@pytest.mark.parametrize(
    ("name", "card", "tensor", "fits"),
    [
        ("llama-3-8b", "H100", 1, True),
        ("llama-3-8b", "L4", 1, True),
        ("llama-3-8b", "T4", 1, False),
        ("llama-3-70b", "A100-80G", 1, False),
        ("llama-3-70b", "A100-80G", 2, True),
        ("llama-3-70b", "H100", 8, True),
        ("mixtral-8x7b", "A100-80G", 1, False),
        ("mixtral-8x7b", "A100-80G", 2, True),
        ("deepseek-v2-lite", "A100-40G", 1, True),
        ("qwen2.5-7b", "4090", 1, True),
    ],
)
def test_what_people_run_fits_and_what_they_do_not_does_not(
    name: str, card: str, tensor: int, fits: bool
) -> None:
    assert plan(name, card, tensor=tensor).fits == fits


def test_the_model_length_is_a_quarter_above_the_longest_likely_request() -> None:
    assert plan().max_model_len == 7168  # 1.25 x 5,000, in steps of 1,024


def test_the_model_length_is_no_more_than_the_model_takes() -> None:
    long = traffic_of_percentiles(Lengths(4000, 9000), Lengths(100, 200), "x")
    assert plan(traffic=long).max_model_len == 8192
    with pytest.raises(PlanError, match="--max-model-len 9000: the model takes 8,192"):
        plan(max_model_len=9000)


def test_what_was_said_is_kept() -> None:
    made = plan(utilization=0.8, max_num_seqs=64, max_num_batched_tokens=4096, max_model_len=4096)
    assert made.budget.utilization == 0.8
    assert made.max_num_seqs == 64
    assert made.max_num_batched_tokens == 4096
    assert made.max_model_len == 4096


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen2.5-7b", "gemma-3-27b", "deepseek-v2-lite"])
@pytest.mark.parametrize("card", ["H100", "A100-80G", "H200"])
def test_seats_are_below_max_num_seqs_and_all_fit(name: str, card: str) -> None:
    made = plan(name, card)
    assert made.limits.max_in_flight < made.max_num_seqs <= made.default_max_num_seqs
    assert made.limits.max_in_flight <= made.fitting
    assert seats_below(made.max_num_seqs, 0.9) <= made.fitting


def test_memory_for_the_kv_cache_that_was_given_is_what_there_is() -> None:
    made = plan(kv_memory=16 * GIB)
    assert made.cache.tokens == 131_072


def test_weights_that_were_given_are_what_there_is() -> None:
    made = plan("llama-3-70b", tensor=2, weights=40 * GIB)
    assert made.budget.weights[0] == pytest.approx(20 * GIB)


def test_a_service_time_that_was_measured_is_taken() -> None:
    made = plan(card="80GiB", service_time_s=20.0)
    assert made.service is not None
    assert made.limits.queue_timeout_s == 5


@settings(max_examples=25, deadline=None)
@given(
    st.integers(16, 200),
    st.integers(0, 100),
    st.sampled_from(["llama-3-8b", "gemma-3-27b", "deepseek-v2-lite"]),
)
def test_more_memory_never_fits_less(gib: int, more: int, name: str) -> None:
    """With the flags fixed that would otherwise follow the size of the card."""
    fixed = {"max_num_seqs": 128, "max_num_batched_tokens": 2048, "utilization": 0.9}
    small = plan(name, f"{gib}GiB", **fixed)
    large = plan(name, f"{gib + more}GiB", **fixed)
    assert small.cache.tokens <= large.cache.tokens
    assert small.fitting <= large.fitting
    assert small.missing >= large.missing


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from(["llama-3-70b", "mixtral-8x7b"]))
def test_more_cards_never_hold_less(tensor: int, name: str) -> None:
    fixed = {"max_num_seqs": 128, "max_num_batched_tokens": 2048}
    few, many = (plan(name, "H200", tensor=n, **fixed) for n in (tensor, tensor * 2))
    assert few.fitting <= many.fitting or tensor == 1


def test_a_plan_by_estimate_alone_is_called_tight() -> None:
    loose = plan("llama-3-8b", "24GiB", max_model_len=4096)
    need = loose.budget.weights[0] + loose.budget.overheads.total
    need += max(loose.cache.layout.full_length_bytes(4096))
    small = Card("exact", int(need * 1.01 / 0.9))
    tight = make_plan(
        replace(loose.request, card=small, utilization=0.9, max_num_seqs=loose.max_num_seqs)
    )
    assert not loose.tight
    assert tight.fits
    assert tight.tight
