from __future__ import annotations

from proxy.vllm.memory_curve.ticks import turns_of


def moments(ticks: int, gpus: int, period_s: float = 1.0, apart_s: float = 0.004) -> list[float]:
    return [tick * period_s + gpu * apart_s for tick in range(ticks) for gpu in range(gpus)]


def test_rows_at_even_distances_are_of_one_gpu() -> None:
    assert turns_of(moments(20, 1)).gpus == 1


def test_rows_in_groups_are_of_as_many_gpus() -> None:
    assert turns_of(moments(16, 4)).gpus == 4
    assert turns_of(moments(8, 8, apart_s=0.0)).gpus == 8


def test_one_hiccup_makes_no_groups() -> None:
    seen = moments(63, 1)
    assert turns_of([*seen, seen[-1] + 30]).gpus == 1


def test_rows_without_a_time_are_of_one_gpu_unless_a_column_counts_them() -> None:
    assert turns_of([None] * 10).gpus == 1
    assert turns_of([None] * 10, told=2).gpus == 2


def test_each_gpu_gets_its_row() -> None:
    seen = moments(5, 3)
    turns = turns_of(seen)
    assert [turns.gpu_of(moment) for moment in seen] == [0, 1, 2] * 5


def test_a_lost_row_does_not_shift_the_ticks_after_it() -> None:
    seen = moments(6, 3)
    turns = turns_of(seen)
    del seen[4]
    assert [turns.gpu_of(moment) for moment in seen] == [0, 1, 2, 0, 1, *[0, 1, 2] * 4]


def test_a_new_start_begins_with_the_first_gpu() -> None:
    turns = turns_of(moments(6, 2))
    turns.gpu_of(100.0)
    turns.begin()
    assert turns.gpu_of(100.001) == 0
