"""What makes a set-up unsound, and which limit binds first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.cli.soundness import (
    Machine,
    Verdict,
    descriptors_needed,
    judge,
    limits_of,
    model_length,
)
from proxy.settings import Settings
from proxy.vllm.binding_limit import BindingLimit, Limits
from proxy.vllm.inspection import EngineReport, ServedModel

pytestmark = pytest.mark.usefixtures("clean_environment")

ROOMY = Machine(max_open_files=None, memory_bytes=None)
URL = "http://127.0.0.1:8000"
ONE, TWO = "http://one:8000", "http://two:8000"


def settings(**values: object) -> Settings:
    given: dict[str, Any] = {"max_num_seqs": 64, "max_in_flight": 50, **values}
    return Settings(**given)


def engine(**values: object) -> EngineReport:
    given: dict[str, Any] = {
        "up": True,
        "key_refused": False,
        "reason": "GET /health answers 200",
        "models": (ServedModel("tiny", 2048),),
        "kv_cache_tokens": 1_048_576,
        "max_concurrency": 512.0,
        **values,
    }
    return EngineReport(**given)


DOWN = engine(up=False, reason="connection refused", models=(), kv_cache_tokens=None)
KEYLESS = engine(key_refused=True, reason="GET /v1/models answers 401", models=())


def verdict(
    report: EngineReport | None = None, machine: Machine = ROOMY, **values: object
) -> Verdict:
    return judge(settings(**values), {URL: report or engine()}, machine)


def verdict_of_two(
    one: EngineReport | None = None,
    two: EngineReport | None = None,
    machine: Machine = ROOMY,
    **values: object,
) -> Verdict:
    reports = {ONE: one or engine(), TWO: two or engine()}
    return judge(settings(upstream_urls=f"{ONE},{TWO}", **values), reports, machine)


def test_an_ordinary_set_up_is_sound_and_has_nothing_to_warn_of() -> None:
    seen = verdict()
    assert seen.sound
    assert (seen.problems, seen.warnings) == ((), ())
    assert binds_first(engine()).which == "max_in_flight"


def binds_first(report: EngineReport) -> BindingLimit:
    limit = verdict(report).binding_limit
    assert limit is not None
    return limit


# The limits --------------------------------------------------------------------------------------


def test_what_is_set_and_what_the_engine_tells_are_the_limits_of_one_engine() -> None:
    seen = limits_of(
        settings(
            max_kv_tokens=5000,
            max_prefill_tokens=4000,
            tenant_max_in_flight=9,
            api_keys="a:" + "x" * 16 + ",b:" + "y" * 16,
        ),
        engine(),
    )
    assert seen == Limits(
        max_in_flight=50,
        max_num_seqs=64,
        max_kv_tokens=5000,
        max_prefill_tokens=4000,
        tenant_max_in_flight=9,
        tenants=2,
        kv_cache_tokens=1_048_576,
        full_length_requests=512.0,
        model_len=2048,
    )


@pytest.mark.parametrize(("cache", "tokens"), [(100_000, 90_000), (None, None)])
def test_auto_is_a_share_of_the_cache_once_it_is_known(
    cache: int | None, tokens: int | None
) -> None:
    report = engine(kv_cache_tokens=cache)
    assert limits_of(settings(max_kv_tokens="auto"), report).max_kv_tokens == tokens


def test_nobody_knows_how_many_tenants_a_header_will_name() -> None:
    named = settings(tenant_header="x-team", api_keys="a:" + "x" * 16)
    assert limits_of(named, engine()).tenants is None
    assert limits_of(settings(), engine()).tenants is None


def test_the_verdict_names_the_limit_that_binds_first() -> None:
    assert binds_first(engine(kv_cache_tokens=40_960, max_concurrency=20.0)).which == "kv_tokens"
    assert "does not answer" in binds_first(DOWN).why


def test_the_longest_model_counts() -> None:
    models = (ServedModel("a", None), ServedModel("b", 10), ServedModel("c", 20))
    assert model_length(engine(models=models)) == 20
    assert model_length(engine(models=())) is None


# Problems ----------------------------------------------------------------------------------------


def test_an_engine_that_is_not_up_is_the_only_problem_told() -> None:
    seen = verdict(DOWN)
    assert not seen.sound
    assert seen.problems == ("the engine at http://127.0.0.1:8000 is not up: connection refused",)


GATEWAY = engine(
    reason="GET /health answers 404 from a Sluice gateway, no engine", is_sluice=True, models=()
)


@pytest.mark.parametrize("report", [GATEWAY, replace(GATEWAY, up=False)])
def test_a_gateway_in_an_engines_place_is_the_only_problem_told(report: EngineReport) -> None:
    (problem,) = verdict(report).problems
    assert problem.startswith(f"a Sluice gateway answers at {URL}")
    assert problem.endswith("name the engine itself")


def test_a_gateway_among_engines_is_named() -> None:
    (problem,) = verdict_of_two(two=GATEWAY).problems
    assert problem.startswith(f"{TWO}: a Sluice gateway answers there")


@pytest.mark.parametrize(
    ("report", "values", "words"),
    [
        (KEYLESS, {"upstream_api_key": "k"}, "does not accept SLUICE_UPSTREAM_API_KEY"),
        (KEYLESS, {"api_keys": "a:" + "k" * 20}, "SLUICE_UPSTREAM_API_KEY must be set"),
        (engine(models=()), {}, "names no model"),
        (
            engine(kv_cache_tokens=799, max_concurrency=None),
            {},
            "SLUICE_MAX_IN_FLIGHT=50: the KV cache has 799 tokens",
        ),
    ],
)
def test_what_cannot_work_is_a_problem(
    report: EngineReport, values: dict[str, object], words: str
) -> None:
    (problem,) = verdict(report, **values).problems
    assert words in problem


def test_an_engine_whose_key_the_clients_bring_is_sound() -> None:
    seen = verdict(KEYLESS)
    assert seen.sound
    assert any("clients must bring it" in warning for warning in seen.warnings)


# Warnings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"max_num_seqs": None}, "SLUICE_MAX_NUM_SEQS is not set"),
        ({"shadow": True}, "nothing is shed"),
        ({"max_queue_depth": 0}, "no request ever waits"),
        ({"queue_timeout": 0}, "no request ever waits"),
        ({"drain_timeout": 0}, "a restart breaks every running request"),
        ({"total_timeout": 60}, "SLUICE_FIRST_BYTE_TIMEOUT, which then has no effect"),
        ({"max_seats_per_request": 51}, "above the limit of 50 seats"),
        ({"upstream_api_key": "k"}, "whoever reaches this gateway"),
        ({"api_keys": "a:short,b:" + "x" * 16}, "shorter than 16 characters: a"),
    ],
)
def test_what_is_worth_a_look_is_a_warning(values: dict[str, object], words: str) -> None:
    seen = verdict(**values)
    assert seen.sound
    (warning,) = seen.warnings
    assert words in warning


def test_a_cache_that_long_requests_fill_is_warned_of_with_the_limit_that_rules_it_out() -> None:
    (warning,) = verdict(engine(kv_cache_tokens=40_960, max_concurrency=20.9)).warnings
    assert "SLUICE_MAX_IN_FLIGHT=20" in warning


def test_an_automatic_limit_that_finds_no_cache_to_fit_is_warned_of() -> None:
    report = engine(kv_cache_tokens=None, max_concurrency=None)
    (warning,) = verdict(report, max_kv_tokens="auto").warnings
    assert warning.startswith("SLUICE_MAX_KV_TOKENS=auto has no effect")


def test_a_limit_to_no_effect_is_a_warning() -> None:
    (warning,) = verdict(max_kv_tokens=10_000_000).warnings
    assert "SLUICE_MAX_KV_TOKENS=10000000" in warning


def test_too_few_open_files_for_all_places_are_warned_of() -> None:
    needed = descriptors_needed(settings(), 1)
    assert needed == 50 + 50 + 50 + 64
    assert verdict(machine=Machine(needed, None)).warnings == ()
    (warning,) = verdict(machine=Machine(needed - 1, None)).warnings
    assert warning.startswith("only 213 open files are allowed")


def test_bodies_that_could_fill_the_memory_are_warned_of() -> None:
    worst = 2 * 100 * 64 * 1024**2
    assert verdict(machine=Machine(None, worst)).warnings == ()
    (warning,) = verdict(machine=Machine(None, worst - 1)).warnings
    assert "12.5 GiB at worst" in warning


# Several engines ---------------------------------------------------------------------------------


def test_two_engines_that_are_alike_are_sound_and_have_nothing_to_warn_of() -> None:
    seen = verdict_of_two()
    assert (seen.problems, seen.warnings) == ((), ())
    assert list(seen.binding_limits) == [ONE, TWO]


def test_one_engine_of_two_that_is_down_is_unsound_and_is_named() -> None:
    seen = verdict_of_two(two=DOWN)
    assert seen.problems == (f"{TWO}: the engine is not up: connection refused",)


def test_a_problem_of_all_names_them_all() -> None:
    (problem,) = verdict_of_two(KEYLESS, KEYLESS, upstream_api_key="k").problems
    assert problem.startswith(f"{ONE}, {TWO}: the engine does not accept SLUICE_UPSTREAM_API_KEY")


def test_a_warning_names_the_engines_that_it_is_about_unless_it_is_about_all() -> None:
    silent = engine(kv_cache_tokens=None, max_concurrency=None)
    (warning,) = verdict_of_two(two=silent, max_kv_tokens="auto").warnings
    assert warning.startswith(f"{TWO}: SLUICE_MAX_KV_TOKENS=auto has no effect")
    (warning,) = verdict_of_two(silent, silent, max_kv_tokens="auto").warnings
    assert warning.startswith("SLUICE_MAX_KV_TOKENS=auto has no effect")


def test_what_differs_between_engines_is_a_warning() -> None:
    (warning,) = verdict_of_two(two=engine(models=(ServedModel("other", 2048),))).warnings
    assert warning.startswith("the engines serve different models")


def test_each_engine_has_its_own_binding_limit_and_one_that_is_no_seats_is_told_first() -> None:
    small = engine(kv_cache_tokens=40_960, max_concurrency=20.0)
    seen = verdict_of_two(two=small)
    assert [one.which for one in seen.binding_limits.values()] == ["max_in_flight", "kv_tokens"]
    assert seen.binding_limit == seen.binding_limits[TWO]


def test_open_files_and_memory_are_for_the_seats_and_places_of_all() -> None:
    needed = descriptors_needed(settings(), 2)
    assert needed == 2 * 100 + 100 + 2 + 63
    assert verdict_of_two(machine=Machine(needed, 2 * 200 * 64 * 1024**2)).warnings == ()
    files, memory = verdict_of_two(machine=Machine(needed - 1, 1024**3)).warnings
    assert "100 seats with 100 waiting places" in files
    assert "25.0 GiB at worst" in memory


def test_places_that_are_set_are_for_all_engines_together() -> None:
    assert descriptors_needed(settings(max_queue_depth=7), 2) == 2 * 100 + 7 + 2 + 63


def test_a_file_that_names_no_engine_is_a_problem() -> None:
    seen = judge(settings(), {}, ROOMY)
    assert seen.problems == (
        "SLUICE_UPSTREAMS_FILE names no engine: every request is refused until it does",
    )
    assert seen.binding_limit is None
