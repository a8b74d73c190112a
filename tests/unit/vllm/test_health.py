"""What counts against an engine, and what does not."""

from __future__ import annotations

import pytest

from proxy.vllm.health import Health, accepted, judge_health, judge_key
from proxy.vllm.probe import Answer, Fault, NoAnswer

UNKNOWN = Health()
UP = Health(up=True, reason="GET /health answers 200")
DOWN = Health(up=False, reason="connection refused")
REFUSED = NoAnswer(Fault.ABSENT, "connection refused (ECONNREFUSED)")
SLOW = NoAnswer(Fault.SILENT, "no answer within 5 s")
OURS = NoAnswer(Fault.UNCLEAR, "too many open files (EMFILE)")
BROKEN = NoAnswer(Fault.BROKEN, "no HTTP answer: closed")


@pytest.mark.parametrize("before", [UNKNOWN, UP, DOWN])
def test_an_engine_that_cannot_be_connected_to_is_down(before: Health) -> None:
    health = judge_health(before, REFUSED, has_key=False)
    assert (health.up, health.reason) == (False, "connection refused (ECONNREFUSED)")


@pytest.mark.parametrize("before", [UNKNOWN, UP, DOWN])
def test_an_engine_that_says_it_is_dead_is_down(before: Health) -> None:
    assert judge_health(before, Answer(503, b""), has_key=False).up is False


@pytest.mark.parametrize("status", [200, 204, 301, 401, 403, 404, 405, 429, 500, 502])
def test_any_other_answer_comes_from_an_engine_that_is_up(status: int) -> None:
    health = judge_health(DOWN, Answer(status, b""), has_key=False)
    assert (health.up, health.key_refused) == (True, False)
    assert str(status) in health.reason


def test_a_gateway_in_an_engines_place_is_up_and_said_to_be_none() -> None:
    health = judge_health(UNKNOWN, Answer(404, b"", from_sluice=True), has_key=False)
    assert health == Health(
        up=True, reason="GET /health answers 404 from a Sluice gateway, no engine"
    )


@pytest.mark.parametrize("before", [UNKNOWN, UP, DOWN])
def test_a_slow_engine_stays_what_it_was(before: Health) -> None:
    health = judge_health(before, SLOW, has_key=False)
    assert (health.up, health.reason) == (before.up, "no answer within 5 s")


@pytest.mark.parametrize("before", [UNKNOWN, UP, DOWN])
def test_a_lack_on_our_side_says_nothing_of_it(before: Health) -> None:
    health = judge_health(before, OURS, has_key=False)
    assert (health.up, health.reason) == (before.up, "too many open files (EMFILE)")


def test_one_broken_answer_is_chance_and_two_in_a_row_are_not() -> None:
    once = judge_health(UP, BROKEN, has_key=False)
    assert once.up is True
    assert judge_health(once, BROKEN, has_key=False).up is False


def test_broken_answers_with_a_good_one_between_them_are_chance() -> None:
    once = judge_health(UP, BROKEN, has_key=False)
    well = judge_health(once, Answer(200, b""), has_key=False)
    assert judge_health(well, BROKEN, has_key=False).up is True


@pytest.mark.parametrize("status", [401, 403])
def test_an_engine_that_refuses_our_key_is_up_and_the_setting_is_named(status: int) -> None:
    health = judge_health(UNKNOWN, Answer(status, b""), has_key=True)
    assert (health.up, health.key_refused) == (True, True)
    assert "SLUICE_UPSTREAM_API_KEY" in health.reason


def test_a_key_that_only_the_model_list_asks_for_is_found_out() -> None:
    health = judge_key(UP, Answer(401, b""))
    assert (health.up, health.key_refused) == (True, True)
    assert "SLUICE_UPSTREAM_API_KEY" in health.reason


def test_a_key_that_a_gateway_refuses_is_told_with_who_refused_it() -> None:
    health = judge_key(UP, Answer(401, b"", from_sluice=True))
    assert health.reason == (
        "GET /v1/models answers 401 from a Sluice gateway, no engine: check SLUICE_UPSTREAM_API_KEY"
    )


def test_a_refused_key_stays_refused_until_it_is_accepted() -> None:
    refused = judge_key(UP, Answer(401, b""))
    later = judge_health(refused, Answer(200, b""), has_key=True)
    assert later.key_refused
    assert not judge_key(later, Answer(200, b"")).key_refused


def test_a_slow_health_check_does_not_make_a_refused_key_good() -> None:
    refused = judge_key(UP, Answer(401, b""))
    assert judge_health(refused, SLOW, has_key=True).key_refused
    assert judge_key(refused, SLOW).key_refused


@pytest.mark.parametrize("answer", [Answer(403, b""), Answer(404, b""), Answer(200, b""), SLOW])
def test_a_good_key_may_still_not_be_allowed_to_list_models(answer: Answer | NoAnswer) -> None:
    assert judge_key(UP, answer) is UP


def test_only_an_engine_that_is_up_and_minds_nothing_has_accepted() -> None:
    assert accepted(Answer(200, b""))
    assert accepted(Answer(404, b""))
    for answer in (Answer(401, b""), Answer(403, b""), Answer(503, b""), SLOW, BROKEN, REFUSED):
        assert not accepted(answer)
