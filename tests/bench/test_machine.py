from __future__ import annotations

import os

import pytest

from tests.bench.machine import Cores, choose_cores, cpu_seconds, pss_in, ticks_of_group

# pid (name) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime
# cutime cstime priority
STAT = "42 ({name}) S 1 7 7 0 -1 4194304 10 20 30 40 100 20 3 4 20 0"


def test_ticks_count_user_and_system_time_and_that_of_children_waited_for() -> None:
    assert ticks_of_group(STAT.format(name="proxy"), 7) == 127


def test_a_process_of_another_group_counts_nothing() -> None:
    assert ticks_of_group(STAT.format(name="proxy"), 8) == 0


def test_a_name_with_brackets_and_blanks_moves_no_field() -> None:
    assert ticks_of_group(STAT.format(name="a) S 1 (b"), 7) == 127


def test_our_own_group_has_used_time_and_no_group_has_used_none() -> None:
    assert cpu_seconds(os.getpgrp()) > 0
    assert cpu_seconds(0) == 0


def test_pss_is_read_in_bytes() -> None:
    assert (
        pss_in("00-ff ---p 00 [rollup]\nRss: 99 kB\nPss:        12 kB\nPss_Dirty: 9 kB\n") == 12_288
    )


def test_the_proxy_gets_a_core_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1, 2})
    assert choose_cores() == Cores(proxy=1, load=2)


def test_one_core_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(SystemExit, match="two cores"):
        choose_cores()
