"""Each client tries again as it was measured to."""

from __future__ import annotations

import random

import pytest

from proxy.replay.client.retry_rules import PROFILES, ClientProfile

NEW, OLD = PROFILES["openai-python"], PROFILES["openai-python-old"]
NODE, NODE_4, VERCEL = PROFILES["openai-node"], PROFILES["openai-node-4"], PROFILES["vercel-ai"]
NOW_S = 1_790_000_000.0


def _delay(
    profile: ClientProfile, status: int = 503, retries: int = 0, **told: str
) -> float | None:
    headers = {name.replace("_", "-"): value for name, value in told.items()}
    return profile.delay_s(status, headers, retries, random.Random(7), NOW_S)


@pytest.mark.parametrize("status", [0, 408, 409, 429, 500, 502, 503, 504, 529])
def test_overload_server_errors_and_silence_are_tried_again(status: int) -> None:
    assert all(_delay(p, status) is not None for p in (NEW, OLD, NODE, NODE_4, VERCEL))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_request_that_is_wrong_is_not_tried_again(status: int) -> None:
    assert all(_delay(p, status) is None for p in (NEW, OLD, NODE, NODE_4, VERCEL))


def test_x_should_retry_overrules_the_status_but_for_vercel() -> None:
    assert _delay(NEW, 503, x_should_retry="false") is None
    assert _delay(NEW, 400, x_should_retry="true") is not None
    assert _delay(VERCEL, 503, x_should_retry="false") is not None
    assert _delay(VERCEL, 400, x_should_retry="true") is None


def test_x_should_retry_is_compared_exactly() -> None:
    assert _delay(NEW, 503, x_should_retry="False") is not None
    assert _delay(NEW, 400, x_should_retry="TRUE") is None


# None: the wait that was told is ignored; "gone": it does not try again.
@pytest.mark.parametrize(
    ("told", "new", "old", "node", "node_4", "vercel"),
    [
        ("0", None, None, 0.0, None, 0.0),
        ("-1", None, None, None, None, None),
        ("1", 1.0, 1.0, 1.0, 1.0, 1.0),
        ("1.5", 1.5, 1.5, 1.5, 1.5, 1.5),
        ("60", 60.0, 60.0, 60.0, None, None),
        ("61", 61.0, None, None, None, None),
        ("121", "gone", None, None, None, None),
        ("soon", None, None, None, None, None),
        ("inf", None, None, None, None, None),
    ],
)
def test_which_waits_each_client_lets_itself_be_told(
    told: str, new: object, old: object, node: object, node_4: object, vercel: object
) -> None:
    wanted = zip((NEW, OLD, NODE, NODE_4, VERCEL), (new, old, node, node_4, vercel), strict=True)
    for profile, expected in wanted:
        delay_s = _delay(profile, retry_after=told)
        if expected == "gone":
            assert delay_s is None
        elif expected is None:
            first_s, jitter = profile.first_delay_s, profile.jitter
            assert delay_s is not None
            assert first_s * (1 - jitter) <= delay_s <= first_s
        else:
            assert delay_s == expected


def test_milliseconds_win_over_seconds_and_nought_of_them_means_the_usual_backoff() -> None:
    assert _delay(NEW, retry_after_ms="250", retry_after="3") == 0.25
    delay_s = _delay(NEW, retry_after_ms="0", retry_after="3")
    assert delay_s is not None
    assert 0.375 <= delay_s <= 0.5


def test_a_date_is_a_wait_until_then() -> None:
    assert _delay(NEW, retry_after="Mon, 21 Sep 2026 14:13:25 GMT") == pytest.approx(5.0)


def test_the_backoff_doubles_up_to_eight_seconds() -> None:
    for retries, longest_s in [(0, 0.5), (1, 1.0), (4, 8.0), (9, 8.0)]:
        delay_s = _delay(NEW, retries=retries)
        assert delay_s is not None
        assert 0.75 * longest_s <= delay_s <= longest_s
    assert [_delay(VERCEL, retries=retries) for retries in (0, 1)] == [2.0, 4.0]


def test_each_client_says_which_try_it_is_where_the_real_one_does() -> None:
    assert NEW.headers(2, 30.0) == [
        (b"x-stainless-retry-count", b"2"),
        (b"x-stainless-read-timeout", b"30"),
    ]
    assert NODE_4.headers(0, 600.0)[1] == (b"x-stainless-timeout", b"600")
    assert VERCEL.headers(1, 30.0) == PROFILES["none"].headers(0, 30.0) == []
