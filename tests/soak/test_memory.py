"""Memory as the kernel tells it, and what is made of it."""

from __future__ import annotations

from tests.soak.memory import MemoryCurve, MemoryNow, read_memory

ROLLUP = """55d0-7ffc ---p 00000000 00:00 0    [rollup]
Rss:              107484 kB
Pss:               62512 kB
Shared_Clean:      20000 kB
Shared_Dirty:          0 kB
Private_Clean:       484 kB
Private_Dirty:     87000 kB
"""


def test_what_is_private_is_what_nobody_else_has() -> None:
    assert read_memory(ROLLUP) == MemoryNow(107_484 * 1024, 87_484 * 1024)


def curve(bytes_a_second: int, blocks_a_second: float) -> MemoryCurve:
    made = MemoryCurve()
    for at in range(1800):
        size = 100_000_000 + bytes_a_second * at
        made.add(float(at), MemoryNow(size, size), int(300_000 + blocks_a_second * at))
    return made


def test_memory_that_stays_is_noise() -> None:
    assert [one.is_noise for one in curve(0, 0).judge(250)] == [True, True, True]


def test_less_than_a_pointer_a_request_is_taken_for_nothing() -> None:
    assert [one.is_noise for one in curve(7 * 250, 0).judge(250)] == [True, True, True]


def test_a_hundred_bytes_a_request_are_a_leak() -> None:
    judged = curve(100 * 250, 250).judge(250)
    assert [one.is_noise for one in judged] == [False, False, False]
    assert [round(one.a_request) for one in judged] == [100, 100, 1]


def test_a_block_that_one_in_a_hundred_requests_leaves_is_a_leak() -> None:
    assert [one.is_noise for one in curve(0, 2.5).judge(250)] == [True, True, False]
