from __future__ import annotations

from proxy.workers.back_off import FIRST_S, LIVED_S, LONGEST_S, BackOff


def test_whoever_dies_again_and_again_waits_longer_and_longer_up_to_a_limit() -> None:
    back_off = BackOff()
    waits = [back_off.after(1.0) for _ in range(12)]
    assert waits[:4] == [0.25, 0.5, 1.0, 2.0]
    assert waits[-1] == LONGEST_S
    assert waits == sorted(waits)


def test_whoever_has_lived_for_long_begins_anew() -> None:
    back_off = BackOff()
    for _ in range(6):
        back_off.after(1.0)
    assert back_off.after(LIVED_S) == FIRST_S
    assert back_off.after(1.0) == 2 * FIRST_S
