"""How the adaptive limit moves, one signal at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.limits.aimd import AimdLimit, Move
from proxy.admission.saturation import Saturation

CALM = Saturation(waiting=0, kv_cache_usage=0.2, preemptions_per_s=0.0, tpot_s=0.02)


class Watch:
    """Tells a limit once a second what the engine shows; all seats are in use unless said."""

    def __init__(
        self, maximum: int = 100, floor: int | None = None, start: int | None = None
    ) -> None:
        self.limit = AimdLimit(maximum, floor, start)
        self.now = 1000.0
        self.moves: list[Move] = []

    def tell(
        self, saturation: Saturation, seconds: int = 1, in_flight: int | None = None
    ) -> list[Move]:
        """The moves that came of it."""
        before = len(self.moves)
        for _ in range(seconds):
            self.now += 1
            used = self.limit.seats if in_flight is None else in_flight
            move = self.limit.observe(saturation, used, self.now)
            if move is not None:
                assert move.after == self.limit.seats
                self.moves.append(move)
        return self.moves[before:]


def waiting(count: float) -> Saturation:
    return Saturation(waiting=count)


def test_without_evidence_it_is_the_maximum() -> None:
    assert AimdLimit(57).seats == 57


@pytest.mark.parametrize(("maximum", "floor"), [(100, 10), (15, 1), (3, 1)])
def test_the_floor_is_a_tenth_of_the_maximum_or_one_seat(maximum: int, floor: int) -> None:
    assert AimdLimit(maximum).floor == floor


@pytest.mark.parametrize(
    ("maximum", "floor", "start"),
    [(0, None, None), (10, 0, None), (10, 11, None), (10, 5, 4), (10, 5, 11)],
)
def test_bounds_that_contradict_each_other_are_an_error(
    maximum: int, floor: int | None, start: int | None
) -> None:
    with pytest.raises(ValueError, match="does not hold"):
        AimdLimit(maximum, floor, start)


# Up


def test_it_rises_by_a_fiftieth_of_the_maximum_a_second_while_all_is_calm() -> None:
    watch = Watch(maximum=200, start=20)
    watch.tell(CALM)  # the first one says only when it was
    watch.tell(CALM, seconds=10)
    assert watch.limit.seats == 60


def test_a_small_limit_rises_by_a_seat_a_second() -> None:
    watch = Watch(maximum=8, start=1)
    watch.tell(CALM, seconds=4)
    assert watch.limit.seats == 4


def test_it_never_rises_above_the_maximum() -> None:
    watch = Watch(maximum=30, start=29)
    watch.tell(CALM, seconds=100)
    assert watch.limit.seats == 30
    assert str(watch.moves[-1]) == (
        "limit 29 -> 30 seats: 29 of 29 seats in use, and the engine not full"
    )


def test_seats_that_nobody_uses_prove_nothing() -> None:
    watch = Watch(start=50)
    assert watch.tell(CALM, seconds=60, in_flight=39) == []
    assert watch.tell(CALM, seconds=1, in_flight=40) != []


def test_an_engine_that_tells_nothing_moves_nothing() -> None:
    watch = Watch(start=50)
    assert watch.tell(Saturation(), seconds=600) == []


def test_a_gap_between_two_looks_is_no_evidence_for_all_of_it() -> None:
    watch = Watch(start=50)
    watch.tell(CALM)
    watch.now += 3600
    watch.tell(CALM)
    assert watch.limit.seats == 54


@pytest.mark.parametrize(
    "known", [waiting(0), Saturation(kv_cache_usage=0.5), Saturation(tpot_s=0.02)]
)
def test_it_makes_do_with_the_signals_that_there_are(known: Saturation) -> None:
    watch = Watch(start=50)
    watch.tell(known, seconds=10)
    assert watch.limit.seats > 60


# Down: the engine's queue


def test_those_who_wait_in_the_engine_are_too_many_in_it() -> None:
    watch = Watch()
    (move,) = watch.tell(waiting(30), seconds=3)
    assert str(move) == "limit 100 -> 75 seats: 30 wait in the engine's own queue"


def test_a_queue_that_does_not_stand_is_none() -> None:
    watch = Watch()
    for _ in range(20):
        watch.tell(waiting(30), seconds=2)
        watch.tell(waiting(0))
    assert watch.moves == []


def test_the_few_that_came_since_the_last_step_are_no_queue() -> None:
    watch = Watch()
    assert watch.tell(waiting(5), seconds=60) == []


def test_one_cut_takes_at_most_half() -> None:
    watch = Watch(maximum=200)
    watch.tell(waiting(190), seconds=3)
    assert watch.limit.seats == 100


def test_one_cut_takes_at_least_a_twentieth() -> None:
    watch = Watch()
    watch.tell(waiting(5.5), seconds=3)
    assert watch.limit.seats == 95


def test_it_never_falls_below_the_floor() -> None:
    watch = Watch(maximum=100, floor=20)
    watch.tell(waiting(500), seconds=600)
    assert watch.limit.seats == 20


# Down: the KV cache


def test_preemptions_cut_it_at_once() -> None:
    watch = Watch()
    (move,) = watch.tell(Saturation(preemptions_per_s=0.5))
    assert str(move) == "limit 100 -> 85 seats: the engine preempts, 0.5 sequences a second"


def test_a_full_cache_cuts_it_to_where_it_is_nearly_full() -> None:
    watch = Watch()
    (move,) = watch.tell(Saturation(kv_cache_usage=1.0))
    assert str(move) == "limit 100 -> 90 seats: its KV cache is 100% full"


def test_a_cache_that_is_just_too_full_cuts_it_by_just_as_much() -> None:
    watch = Watch()
    (move,) = watch.tell(Saturation(kv_cache_usage=0.95))
    assert move.after == 94


def test_at_nine_tenths_of_the_cache_it_rises_no_more() -> None:
    watch = Watch(start=50)
    assert watch.tell(Saturation(kv_cache_usage=0.9), seconds=9) == []


def test_with_a_cache_that_is_nearly_full_it_stays() -> None:
    watch = Watch(start=50)
    assert watch.tell(Saturation(kv_cache_usage=0.92), seconds=60) == []


# Down: time per output token


def test_an_engine_at_four_times_its_best_is_full() -> None:
    watch = Watch()
    watch.tell(Saturation(tpot_s=0.010), seconds=5)
    moves = watch.tell(Saturation(tpot_s=0.080), seconds=10)
    assert moves[0].before == 100
    assert moves[0].why.endswith("and took 10 ms at best")
    assert watch.limit.seats < 80


def test_what_is_said_of_the_time_per_token_is_in_milliseconds() -> None:
    watch = Watch()
    watch.tell(Saturation(tpot_s=0.01043), seconds=5)
    (move,) = watch.tell(Saturation(tpot_s=0.08131), seconds=3)
    assert move.why == "a token takes 45 ms, and took 10.4 ms at best"


def test_an_engine_that_tells_its_speed_no_more_is_not_held_to_what_it_was() -> None:
    watch = Watch(start=50)
    watch.tell(Saturation(tpot_s=0.010), in_flight=1)
    watch.tell(Saturation(tpot_s=0.038), seconds=30, in_flight=1)
    assert watch.tell(waiting(0), seconds=9) != []


def test_a_token_that_took_no_time_teaches_nothing() -> None:
    watch = Watch()
    watch.tell(Saturation(tpot_s=0.010), seconds=5)
    watch.tell(Saturation(tpot_s=0.0), seconds=60)
    assert watch.tell(Saturation(tpot_s=0.02), seconds=60) == []
    watch.tell(Saturation(preemptions_per_s=1.0))
    assert watch.tell(Saturation(tpot_s=0.0), seconds=9) != []


def test_one_slow_second_is_smoothed_over() -> None:
    watch = Watch()
    watch.tell(Saturation(tpot_s=0.010), seconds=5)
    for _ in range(10):
        watch.tell(Saturation(tpot_s=0.100), seconds=1)
        watch.tell(Saturation(tpot_s=0.010), seconds=9)
    assert watch.moves == []


def test_close_to_it_the_limit_stays() -> None:
    watch = Watch(start=50)
    watch.tell(Saturation(tpot_s=0.010), in_flight=1)
    watch.tell(Saturation(tpot_s=0.038), seconds=30, in_flight=1)
    assert watch.tell(Saturation(tpot_s=0.038), seconds=60) == []


def test_an_engine_that_is_slow_for_good_is_forgiven_in_time() -> None:
    watch = Watch()
    watch.tell(Saturation(tpot_s=0.010), seconds=5)
    watch.tell(Saturation(tpot_s=0.100), seconds=120)
    assert watch.limit.seats == 10
    watch.tell(Saturation(tpot_s=0.100), seconds=2 * 3600)
    assert watch.limit.seats == 100


def test_a_new_engine_is_not_blamed_for_the_old_ones_queue() -> None:
    watch = Watch()
    watch.tell(waiting(30), seconds=2)
    watch.limit.engine_restarted()
    assert watch.tell(waiting(30), seconds=2) == []


def test_a_new_engine_is_not_measured_by_the_old_ones_best() -> None:
    watch = Watch()
    watch.tell(Saturation(tpot_s=0.010), seconds=5)
    watch.limit.engine_restarted()
    assert watch.tell(Saturation(tpot_s=0.100), seconds=60) == []


# Damping


def test_the_worst_signal_speaks() -> None:
    watch = Watch()
    watch.tell(waiting(0), seconds=2)
    (move,) = watch.tell(Saturation(waiting=0, kv_cache_usage=0.96, preemptions_per_s=2.0))
    assert move.after == 85
    assert "preempts" in move.why


def test_after_a_cut_it_waits_until_the_cut_has_taken_hold() -> None:
    full = Saturation(preemptions_per_s=1.0)
    watch = Watch()
    watch.tell(full)
    assert watch.tell(full, seconds=25, in_flight=95) == []  # long answers still run
    assert watch.tell(full, in_flight=85) != []


def test_two_cuts_are_three_seconds_apart() -> None:
    watch = Watch()
    moves = watch.tell(Saturation(preemptions_per_s=1.0), seconds=7)
    assert [move.after for move in moves] == [85, 72, 61]


def test_once_a_cut_has_taken_hold_the_next_waits_for_nobody() -> None:
    full = Saturation(preemptions_per_s=1.0)
    watch = Watch()
    watch.tell(full)
    watch.tell(CALM, seconds=4)
    assert watch.tell(full, in_flight=99) != []


def test_after_a_cut_the_engines_queue_and_its_speed_are_judged_anew() -> None:
    watch = Watch()
    watch.tell(waiting(30), seconds=3)
    watch.now += 3
    assert all(move.after > move.before for move in watch.tell(waiting(30), seconds=2))
    (move,) = watch.tell(waiting(30))
    assert move.after < move.before, "it has been seen three times since"
    watch = Watch()
    watch.tell(Saturation(tpot_s=0.010), seconds=5)
    (cut,) = watch.tell(Saturation(tpot_s=0.800))
    assert cut.after == 50
    moves = watch.tell(Saturation(tpot_s=0.012), seconds=5)
    assert [move.after for move in moves] == [52, 54, 56], "it is fast again, and rises"


def test_it_does_not_wait_for_ever() -> None:
    full = Saturation(preemptions_per_s=1.0)
    watch = Watch()
    watch.tell(full)
    assert [move.after for move in watch.tell(full, seconds=30, in_flight=95)] == [72]


def test_a_cut_goes_by_the_seats_in_use_but_never_below_half() -> None:
    watch = Watch()
    watch.tell(Saturation(preemptions_per_s=1.0), in_flight=70)
    assert watch.limit.seats == 59
    idle = Watch()
    idle.tell(Saturation(preemptions_per_s=1.0), in_flight=2)
    assert idle.limit.seats == 50


def test_near_the_edge_it_feels_its_way() -> None:
    watch = Watch()
    watch.tell(Saturation(preemptions_per_s=1.0))
    watch.tell(CALM, seconds=8)
    near = watch.limit.seats
    assert 93 <= near <= 96  # quickly back to 0.95 of the edge
    watch.tell(CALM, seconds=10)
    assert watch.limit.seats - near <= 2


def seconds_at(watch: Watch, seconds: int) -> dict[int, int]:
    """How many seconds in a row each limit lasts while all is calm."""
    lasted: dict[int, int] = {}
    for _ in range(seconds):
        watch.tell(CALM)
        lasted[watch.limit.seats] = lasted.get(watch.limit.seats, 0) + 1
    return lasted


def test_it_is_quick_up_to_a_seat_below_the_edge_and_then_takes_ten_times_as_long() -> None:
    watch = Watch(maximum=50, floor=1, start=10)
    watch.tell(waiting(30), seconds=3)
    lasted = seconds_at(watch, 40)
    assert [lasted[seats] for seats in (6, 7, 8, 9)] == [1, 1, 1, 1]
    assert lasted[10] == lasted[11] == 10, "the edge is at 11"


def test_a_cut_at_the_last_seat_brings_the_second_no_nearer() -> None:
    watch = Watch(maximum=50, floor=1, start=1)
    watch.tell(Saturation(preemptions_per_s=1.0))
    watch.tell(CALM, seconds=2)
    assert seconds_at(watch, 20) == {1: 9, 2: 10, 3: 1}


@pytest.mark.parametrize(("start", "left_behind_at"), [(1, 3), (4, 6), (10, 12)])
def test_two_seats_above_a_low_edge_it_is_quick_again(start: int, left_behind_at: int) -> None:
    watch = Watch(maximum=50, floor=1, start=start)
    watch.tell(Saturation(preemptions_per_s=1.0))
    lasted = seconds_at(watch, 80)
    assert lasted[left_behind_at - 1] == 10
    assert lasted[left_behind_at + 1] == 1


def test_a_fifth_above_a_high_edge_it_is_quick_again() -> None:
    watch = Watch(maximum=1000, floor=1, start=100)
    watch.tell(Saturation(preemptions_per_s=1.0))
    lasted = seconds_at(watch, 40)
    assert {98, 104, 110, 116} <= lasted.keys(), "two seats a second"
    assert len([seats for seats in lasted if 121 < seats <= 321]) == 10, "and twenty from there on"


def test_an_edge_that_is_no_longer_there_is_left_behind() -> None:
    watch = Watch(maximum=400, start=100)
    watch.tell(Saturation(preemptions_per_s=1.0))
    watch.tell(CALM, seconds=90)
    assert watch.limit.seats == 400


_SHARES = st.none() | st.floats(0, 1)
_SATURATIONS = st.builds(
    Saturation,
    waiting=st.none() | st.floats(0, 1e6),
    kv_cache_usage=_SHARES,
    preemptions_per_s=st.none() | st.floats(0, 1e6),
    tpot_s=st.none() | st.floats(0, 1e6),
)


@given(
    st.integers(1, 500).flatmap(lambda top: st.tuples(st.just(top), st.integers(1, top))),
    st.lists(st.tuples(_SATURATIONS, st.integers(0, 600), st.floats(-5, 100)), max_size=60),
)
def test_whatever_it_is_told_it_stays_between_floor_and_maximum(
    bounds: tuple[int, int], told: list[tuple[Saturation, int, float]]
) -> None:
    maximum, floor = bounds
    limit = AimdLimit(maximum, floor)
    now = 0.0
    for saturation, in_flight, later_s in told:
        now += later_s
        before = limit.seats
        move = limit.observe(saturation, in_flight, now)
        assert floor <= limit.seats <= maximum
        assert (move is None) == (limit.seats == before)
        assert move is None or (move.before, move.after) == (before, limit.seats)


def test_a_limit_that_is_open_goes_with_its_maximum() -> None:
    limit = AimdLimit(100)
    limit.set_most(40)
    assert (limit.seats, limit.ceiling, limit.floor) == (40, 40, 10)
    limit.set_most(120)
    assert (limit.seats, limit.ceiling) == (120, 120)


def test_a_limit_that_was_cut_stays_below_and_climbs_by_itself() -> None:
    limit = AimdLimit(100, start=30)
    limit.set_most(200)
    assert limit.seats == 30
    limit.set_most(5)
    assert (limit.seats, limit.floor) == (5, 5)


def test_a_maximum_of_one_seat_is_the_least() -> None:
    limit = AimdLimit(100)
    limit.set_most(1)
    assert (limit.seats, limit.floor) == (1, 1)


def test_all_is_held_of_which_a_part_is_open() -> None:
    limit = AimdLimit(100, start=30)
    assert (limit.seats, limit.widest, limit.held, limit.ceiling) == (30, 30, 100, 100)


def test_a_maximum_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 seats"):
        AimdLimit(4).set_most(0)
