from __future__ import annotations

import os

from tests.bench.storm.noise import CoreNoise, busy_ticks

STAT = """\
cpu  100 0 50 1000 10 5 5 20 7 0
cpu1 1 0 1 100 0 0 0 0 0 0
cpu10 40 2 20 500 9 3 1 10 7 0
"""


def test_all_but_idle_time_is_busy_and_a_guest_counts_once() -> None:
    assert busy_ticks(STAT, 10) == 40 + 2 + 20 + 3 + 1 + 10


def test_a_share_is_one_of_the_core() -> None:
    core = min(os.sched_getaffinity(0))
    assert CoreNoise(core, [os.getpgrp()]).share() >= 0.0
