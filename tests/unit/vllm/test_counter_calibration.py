from __future__ import annotations

import random

import pytest

from proxy.openai_api.measure import Measured
from proxy.openai_api.usage import Usage
from proxy.vllm.counter_calibration import WINDOW_PROMPTS, CounterCalibration, MeanPrompt

STREAM = Measured(1, prompt_bytes=4000)


def started(counter: float = 1000.0) -> CounterCalibration:
    calibration = CounterCalibration()
    assert calibration.reading(counter) is None
    return calibration


def finish(calibration: CounterCalibration, times: int = WINDOW_PROMPTS, **fields: int) -> None:
    for _ in range(times):
        calibration.finished(Measured(**{"seats": 1, "prompt_bytes": 4000, **fields}), None)


def test_a_window_gives_its_mean_prompt() -> None:
    calibration = started()
    finish(calibration, WINDOW_PROMPTS // 2, prompt_bytes=2000)
    finish(calibration, WINDOW_PROMPTS // 2, prompt_bytes=6000)
    assert calibration.reading(1000.0 + 900 * WINDOW_PROMPTS) == MeanPrompt(4000, 900)


def test_a_window_that_is_too_short_goes_on() -> None:
    calibration = started()
    finish(calibration, WINDOW_PROMPTS - 1)
    assert calibration.reading(50_000.0) is None
    finish(calibration, 1)
    pair = calibration.reading(1000.0 + 1000 * WINDOW_PROMPTS)
    assert pair == MeanPrompt(4000, 1000)


def test_the_next_window_starts_where_the_last_has_ended() -> None:
    calibration = started()
    for end in (1, 2, 3):
        finish(calibration)
        pair = calibration.reading(1000.0 + end * 1000 * WINDOW_PROMPTS)
        assert pair == MeanPrompt(4000, 1000)


def test_what_is_known_of_some_prompts_is_taken_off() -> None:
    calibration = started()
    for _ in range(20):
        calibration.finished(STREAM, Usage(5000, 10))
        calibration.finished(Measured(1, prompt_bytes=9, prompt_token_ids=300), None)
    finish(calibration)
    counted = 20 * 5300 + 1000 * WINDOW_PROMPTS
    assert calibration.reading(1000.0 + counted) == MeanPrompt(4000, 1000)


def test_where_most_answers_tell_their_usage_the_counter_teaches_nothing() -> None:
    calibration = started()
    for _ in range(WINDOW_PROMPTS):
        calibration.finished(STREAM, Usage(1000))
    finish(calibration, 10)
    assert calibration.reading(1e6) is None


def test_the_engine_counts_a_prompt_for_each_choice() -> None:
    calibration = started()
    finish(calibration, seats=8, prompts=2, times=16)
    assert calibration.reading(1000.0 + 128 * 500) == MeanPrompt(2000, 500)


def test_an_engine_that_starts_anew_starts_a_window() -> None:
    calibration = started(1e9)
    finish(calibration)
    assert calibration.reading(5.0) is None
    finish(calibration)
    assert calibration.reading(5.0 + 1000 * WINDOW_PROMPTS) == MeanPrompt(4000, 1000)


@pytest.mark.parametrize("tokens", [0, 4001 * WINDOW_PROMPTS])
def test_what_cannot_be_is_left_out_and_the_window_with_it(tokens: float) -> None:
    calibration = started()
    finish(calibration)
    assert calibration.reading(1000.0 + tokens) is None
    finish(calibration)
    after = 1000.0 + tokens + 1000 * WINDOW_PROMPTS
    assert calibration.reading(after) == MeanPrompt(4000, 1000)


def test_a_page_that_could_not_be_read_changes_nothing() -> None:
    calibration = started()
    finish(calibration)
    assert calibration.reading(None) is None
    assert calibration.reading(1000.0 + 1000 * WINDOW_PROMPTS) == MeanPrompt(4000, 1000)


def test_requests_that_straddle_the_edges_blur_it_little() -> None:
    """Eight at a time: the engine counts a prompt at once, we count it eight requests later."""
    rng = random.Random(1)
    calibration = started(0.0)
    running: list[int] = []
    counter, pairs = 0.0, []
    for turn in range(2000):
        size = int(rng.lognormvariate(8, 0.7))
        counter += size / 4
        running.append(size)
        if len(running) > 8:
            calibration.finished(Measured(1, prompt_bytes=running.pop(0)), None)
        if turn % 10 == 0 and (pair := calibration.reading(counter)) is not None:
            pairs.append(pair.prompt_bytes / pair.prompt_tokens)
    assert len(pairs) > 20
    assert sum(pairs) / len(pairs) == pytest.approx(4, rel=0.05)
    assert all(bytes_per_token == pytest.approx(4, rel=0.35) for bytes_per_token in pairs)
