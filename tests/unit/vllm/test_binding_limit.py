"""Which limit fills first, in whose words, and what is set to no effect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.binding_limit import (
    BindingLimit,
    Limits,
    Occupancy,
    auto_kv_tokens,
    binding_limit,
    full_length_requests,
    limit_warnings,
)


def limits(**values: object) -> Limits:
    given: dict[str, Any] = {
        "max_in_flight": 50,
        "max_num_seqs": 64,
        "kv_cache_tokens": 1_048_576,
        "full_length_requests": 512.0,
        "model_len": 2048,
        **values,
    }
    return Limits(**given)


SMALL_CACHE: dict[str, object] = {"kv_cache_tokens": 40_960, "full_length_requests": 20.0}
UNTOLD: dict[str, object] = {
    "kv_cache_tokens": None,
    "full_length_requests": None,
    "model_len": None,
}


# Before anything was seen ------------------------------------------------------------------------


def test_seats_bind_first_when_the_cache_holds_more_requests_of_full_length() -> None:
    assert binding_limit(limits()) == BindingLimit(
        "max_in_flight",
        "50 seats fill first: the KV cache (1,048,576 tokens) holds 512.0 requests of full length",
    )


def test_the_cache_binds_first_when_it_holds_fewer_and_the_turning_point_is_told() -> None:
    limit = binding_limit(limits(**SMALL_CACHE))
    assert limit == BindingLimit(
        "kv_tokens",
        "the KV cache (40,960 tokens) holds 20.0 requests of full length, fewer than 50 seats; "
        "the seats fill first only while requests take 819 tokens or less on average, prompt and "
        "output together",
    )


def test_exactly_as_many_requests_as_seats_fit() -> None:
    assert binding_limit(limits(max_in_flight=512)).which == "max_in_flight"
    assert binding_limit(limits(max_in_flight=513)).which == "kv_tokens"


def test_our_own_budget_binds_before_the_engines_cache_when_it_is_smaller() -> None:
    limit = binding_limit(limits(max_kv_tokens=20_480))
    assert limit.which == "kv_tokens"
    assert limit.why.startswith("SLUICE_MAX_KV_TOKENS=20480 holds 10.0 requests of full length")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (UNTOLD, "the engine does not tell the size of its KV cache"),
        (UNTOLD | {"engine_answers": False}, "the engine does not answer"),
        ({"full_length_requests": None, "model_len": None}, "up to 20,971 tokens a request"),
    ],
)
def test_what_is_not_known_is_said_and_never_taken_for_zero(
    values: dict[str, object], words: str
) -> None:
    limit = binding_limit(limits(**values))
    assert limit.which == "max_in_flight"
    assert words in limit.why


# From what was seen ------------------------------------------------------------------------------


def test_requests_that_turn_out_short_leave_the_seats_to_bind() -> None:
    limit = binding_limit(limits(**SMALL_CACHE), Occupancy(tokens_per_seat=200.0))
    assert limit == BindingLimit(
        "max_in_flight",
        "50 seats fill first: the KV cache (40,960 tokens) holds 204.8 requests of the 200 tokens "
        "that they have on average",
    )


def test_requests_that_turn_out_long_leave_the_cache_to_bind() -> None:
    limit = binding_limit(limits(**SMALL_CACHE), Occupancy(tokens_per_seat=1024.0))
    assert limit == BindingLimit(
        "kv_tokens",
        "the KV cache (40,960 tokens) holds 40.0 requests of the 1,024 tokens that they have on "
        "average, fewer than 50 seats",
    )


def test_seats_that_are_all_taken_bind_whatever_longer_requests_would_do() -> None:
    full = Occupancy(in_flight=50)
    assert binding_limit(limits(**SMALL_CACHE), full) == BindingLimit(
        "max_in_flight", "all 50 seats are taken"
    )
    assert binding_limit(limits(**SMALL_CACHE), Occupancy(in_flight=49)).which == "kv_tokens"


def test_a_budget_is_filled_by_what_is_set_aside_and_not_by_what_comes() -> None:
    """Clients that ask for 2,000 tokens and take 100 fill the budget, not the cache."""
    seen = Occupancy(in_flight=10, kv_tokens=20_000, tokens_per_seat=100.0)
    limit = binding_limit(limits(max_kv_tokens=40_000), seen)
    assert limit == BindingLimit(
        "kv_tokens",
        "SLUICE_MAX_KV_TOKENS=40000 is reached at 20.0 requests of the 2,000 tokens that are set "
        "aside for each one now, fewer than 50 seats",
    )


def test_long_prompts_reach_the_prefill_budget_first() -> None:
    seen = Occupancy(in_flight=10, prefill_tokens=6000)
    limit = binding_limit(limits(max_prefill_tokens=8000), seen)
    assert limit.which == "prefill_tokens"
    assert "reached at 13.3 requests with the 600 prompt tokens for each one" in limit.why


def test_while_nothing_is_being_prefilled_that_budget_takes_no_part() -> None:
    assert binding_limit(limits(max_prefill_tokens=1)).which == "max_in_flight"
    assert binding_limit(limits(max_prefill_tokens=1), Occupancy(in_flight=9)).which == (
        "max_in_flight"
    )


@pytest.mark.parametrize(
    ("tenants", "upstreams", "which"),
    [(1, 1, "tenant"), (4, 1, "tenant"), (5, 1, "max_in_flight"), (5, 2, "tenant")],
)
def test_a_cap_binds_first_while_too_few_tenants_send(
    tenants: int, upstreams: int, which: str
) -> None:
    capped = limits(tenant_max_in_flight=10, upstreams=upstreams)
    assert binding_limit(capped, Occupancy(tenants=tenants)).which == which


def test_a_cap_says_whom_it_stops() -> None:
    capped = limits(tenant_max_in_flight=10, upstreams=2)
    assert binding_limit(capped, Occupancy(tenants=1)).why == (
        "SLUICE_TENANT_MAX_IN_FLIGHT=10 stops the one tenant that sends at 10 seats in all of 2 "
        "engines, fewer than 50 seats"
    )
    assert "each of 3 tenants at 30 seats in all" in binding_limit(
        limits(tenant_max_in_flight=10), Occupancy(tenants=3)
    ).why  # fmt: skip


def test_a_cap_takes_no_part_while_nobody_sends() -> None:
    assert binding_limit(limits(tenant_max_in_flight=1), Occupancy(tenants=0)).which == (
        "max_in_flight"
    )


@given(
    seats=st.integers(1, 2000),
    cache=st.integers(1, 10**7),
    own=st.none() | st.integers(1, 10**7),
    prefill=st.none() | st.integers(1, 10**7),
    cap=st.none() | st.integers(1, 2000),
    seen=st.builds(
        Occupancy,
        in_flight=st.integers(0, 2000),
        kv_tokens=st.integers(0, 10**7),
        prefill_tokens=st.integers(0, 10**6),
        tokens_per_seat=st.none() | st.floats(1, 1e5),
        tenants=st.none() | st.integers(0, 100),
    ),
)
def test_one_limit_binds_whatever_was_seen_and_it_is_one_that_is_set(
    seats: int, cache: int, own: int | None, prefill: int | None, cap: int | None, seen: Occupancy
) -> None:
    held = limits(
        max_in_flight=seats,
        kv_cache_tokens=cache,
        full_length_requests=cache / 2048,
        max_kv_tokens=own,
        max_prefill_tokens=prefill,
        tenant_max_in_flight=cap,
    )
    limit = binding_limit(held, seen)
    allowed = {"max_in_flight", "kv_tokens"}
    allowed |= {"prefill_tokens"} if prefill else set()
    allowed |= {"tenant"} if cap else set()
    assert limit.which in allowed
    assert str(seats) in limit.why
    limit_warnings(held)


@given(seats=st.integers(1, 500), tokens=st.floats(1, 1e5), cache=st.integers(16, 10**7))
def test_seats_bind_exactly_while_all_of_them_fit_into_the_cache(
    seats: int, tokens: float, cache: int
) -> None:
    held = limits(max_in_flight=seats, kv_cache_tokens=cache)
    limit = binding_limit(held, Occupancy(tokens_per_seat=tokens))
    assert (limit.which == "max_in_flight") == (cache / tokens >= seats)


# Warnings ----------------------------------------------------------------------------------------


def test_limits_that_fit_are_not_warned_of() -> None:
    fitting = limits(
        max_kv_tokens=90_000, max_prefill_tokens=8192, tenant_max_in_flight=10, tenants=8
    )
    assert limit_warnings(limits()) == limit_warnings(fitting) == ()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"max_num_seqs": 50},
            "SLUICE_MAX_IN_FLIGHT=50 binds after vLLM's own --max-num-seqs=50",
        ),
        (
            {"tenant_max_in_flight": 10, "tenants": 4},
            "SLUICE_MAX_IN_FLIGHT=50 can never bind: 4 tenants have 40 seats at most",
        ),
        (SMALL_CACHE, "or SLUICE_MAX_IN_FLIGHT=20, to rule it out"),
        (
            SMALL_CACHE | {"max_kv_tokens": 50_000},
            "SLUICE_MAX_KV_TOKENS=50000 binds after vLLM's own: the KV cache has 40,960 tokens",
        ),
        ({"max_kv_tokens": 102_400}, "SLUICE_MAX_KV_TOKENS=102400 can never bind"),
        ({"max_kv_tokens": 2047}, "less than one request of full length (2,048 tokens)"),
        ({"max_kv_tokens": 799}, "SLUICE_MAX_IN_FLIGHT=50 can never bind"),
        ({"max_prefill_tokens": 102_400}, "SLUICE_MAX_PREFILL_TOKENS=102400 can never bind"),
        (
            {"max_prefill_tokens": 50_000, "max_kv_tokens": 50_000},
            "every prompt counts towards SLUICE_MAX_KV_TOKENS=50000 as well",
        ),
        (
            {"tenant_max_in_flight": 50},
            "SLUICE_TENANT_MAX_IN_FLIGHT=50 can never bind: there are no more than 50 seats",
        ),
    ],
)
def test_a_limit_to_no_effect_is_warned_of(values: dict[str, object], words: str) -> None:
    (warning,) = limit_warnings(limits(**values))
    assert words in warning


def test_auto_may_come_out_at_more_than_the_seats_can_hold() -> None:
    assert limit_warnings(limits(max_kv_tokens=943_718, max_kv_tokens_is_auto=True)) == ()


def test_a_cap_counts_over_all_engines() -> None:
    assert limit_warnings(limits(tenant_max_in_flight=50, upstreams=2)) == ()
    assert len(limit_warnings(limits(tenant_max_in_flight=100, upstreams=2))) == 1


def test_nothing_is_warned_of_that_is_not_known() -> None:
    unknown = limits(max_num_seqs=None, max_kv_tokens=10**9, max_prefill_tokens=10**8, **UNTOLD)
    assert limit_warnings(unknown) == ()


# Figures -----------------------------------------------------------------------------------------


def test_what_the_engine_says_it_holds_goes_before_a_division() -> None:
    assert full_length_requests(2048, 2048, 9.5) == 9.5
    assert full_length_requests(4096, 2048, None) == 2.0
    assert full_length_requests(None, 2048, None) is None
    assert full_length_requests(4096, None, None) is None


@pytest.mark.parametrize(("headroom", "tokens"), [(0.9, 900), (1.0, 1000), (0.57, 570), (1e-9, 1)])
def test_auto_is_the_cache_times_headroom_without_an_error_of_rounding(
    headroom: float, tokens: int
) -> None:
    assert auto_kv_tokens(1000, headroom) == tokens
