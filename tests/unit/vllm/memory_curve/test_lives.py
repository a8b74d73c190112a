from __future__ import annotations

from proxy.vllm.memory_curve.lives import Life, lives_of
from proxy.vllm.memory_curve.reader import read_memory_curve
from proxy.vllm.memory_curve.series import MemorySeries
from tests.support.memory_curves import CARD_MIB, MIB, START_UP, curve


def lives(used_mib: list[float]) -> list[Life]:
    series = MemorySeries()
    for sample in read_memory_curve(curve(used_mib)):
        series.add(sample)
    return lives_of(series.bins, CARD_MIB * MIB)


def test_a_recording_of_a_running_engine_is_one_life_and_all_body() -> None:
    (life,) = lives([20000.0] * 30)
    assert (life.started, life.settled, life.ended) == (False, True, False)
    assert life.body == life.bins


def test_the_start_up_is_no_part_of_the_body() -> None:
    (life,) = lives([*START_UP, *[22000.0] * 100])
    assert (life.started, life.settled, life.ended) == (True, True, False)
    assert min(each.low for each in life.body) >= 15000 * MIB


def test_an_empty_card_lies_between_two_lives() -> None:
    first, second = lives([*START_UP, *[22000.0] * 20, *START_UP, *[22000.0] * 20])
    assert (first.ended, second.ended) == (True, False)
    assert first.peak == second.peak == 22000 * MIB


def test_a_burst_that_gives_its_memory_back_is_no_start_up() -> None:
    (life,) = lives([5000.0] * 20 + [23000.0] * 30 + [5000.0] * 20)
    assert not life.started
    assert len(life.body) == 70


def test_an_engine_that_dies_while_loading_never_settles() -> None:
    (life,) = lives([4, 4, *[i * 400.0 for i in range(1, 60)], 4, 4])
    assert (life.started, life.settled, life.ended) == (True, False, True)


def test_an_empty_card_has_no_lives() -> None:
    assert lives([4.0] * 20) == []
