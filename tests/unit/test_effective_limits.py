from __future__ import annotations

from typing import Any

import pytest

from proxy.effective_limits import (
    bodies_of_a_worker,
    budgets_of_a_worker,
    effective_limits,
    kv_budget,
    open_requests_of_a_worker,
)
from proxy.settings import Settings

pytestmark = pytest.mark.usefixtures("clean_environment")


def settings(**values: object) -> Settings:
    given: dict[str, Any] = {"max_num_seqs": 64, "max_in_flight": 50, **values}
    return Settings(**given)


def test_what_is_set_and_what_the_engine_tells_stand_side_by_side() -> None:
    limits = effective_limits(
        settings(max_prefill_tokens=4096, tenant_max_in_flight=9),
        kv_cache_tokens=100_000,
        model_len=2_000,
        max_concurrency=None,
    )
    assert (limits.max_in_flight, limits.max_num_seqs) == (50, 64)
    assert (limits.max_prefill_tokens, limits.tenant_max_in_flight) == (4096, 9)
    assert (limits.kv_cache_tokens, limits.full_length_requests) == (100_000, 50)
    assert limits.max_kv_tokens is None


def test_an_automatic_kv_budget_is_the_caches_size_times_the_headroom() -> None:
    assert kv_budget(settings(max_kv_tokens="auto"), 100_000) == 90_000
    assert kv_budget(settings(max_kv_tokens="auto"), None) is None
    assert kv_budget(settings(max_kv_tokens=5), 100_000) == 5
    assert kv_budget(settings(), 100_000) is None


def test_as_many_tenants_as_keys_unless_a_header_names_them() -> None:
    def tenants(**values: object) -> int | None:
        return effective_limits(
            settings(**values), kv_cache_tokens=None, model_len=None, max_concurrency=None
        ).tenants

    assert tenants(api_keys="a:k1,b:k2") == 2
    assert tenants(api_keys="a:k1,b:k2", tenant_header="x-team") is None
    assert tenants() is None


def test_workers_have_a_part_of_the_token_limits_each_rounded_up() -> None:
    shared = {"workers": 3, "redis_url": "redis://store:6379/0"}
    chosen = settings(max_prefill_tokens=1000, max_kv_tokens="auto", **shared)
    assert budgets_of_a_worker(chosen, 100_000) == (334, 30_000)
    assert budgets_of_a_worker(chosen, None) == (334, None)
    assert budgets_of_a_worker(settings(**shared), 100_000) == (None, None)
    assert budgets_of_a_worker(settings(max_kv_tokens=7), None) == (None, 7)


def test_as_many_bodies_as_seats_and_places() -> None:
    for workers, places in ((1, 9), (3, 3)):
        chosen = settings(max_queue_depth=9, workers=workers, redis_url="redis://store:6379/0")
        assert bodies_of_a_worker(chosen, 2) == 2 * 50 + places
    least = settings(max_in_flight=1, max_queue_depth=0)
    assert bodies_of_a_worker(least, 1) == 1


@pytest.mark.parametrize(("seats", "most"), [(1, 128), (500, 500)])
def test_as_many_without_a_seat_as_there_are_seats_but_never_few(seats: int, most: int) -> None:
    chosen = settings(max_in_flight=seats, max_num_seqs=1000)
    assert open_requests_of_a_worker(chosen) == most
