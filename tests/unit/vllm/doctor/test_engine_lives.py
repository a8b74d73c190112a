"""Several starts of the engine in one log."""

from tests.support.doctor_logs import SERVING, STARTED, findings_of, oom, stats


def test_a_second_start_begins_a_second_life() -> None:
    log = findings_of(*SERVING, oom(), *SERVING, stats(3, 0, 10.0))
    assert [len(life.events) for life in log.lives] == [1, 0]
    assert log.lives[1].first_line == len(SERVING) + 2
    assert log.lives[1].stats.peak_running == 3


def test_ranks_that_say_the_same_words_are_one_life() -> None:
    ranks = [f"(EngineCore_DP{rank} pid={rank + 7}) {STARTED[1]}" for rank in range(4)]
    log = findings_of(STARTED[0], *ranks)
    assert len(log.lives) == 1


def test_an_engine_without_arguments_begins_a_life_too() -> None:
    log = findings_of(STARTED[1], oom(), STARTED[1])
    assert len(log.lives) == 2


def test_an_event_knows_whether_the_engine_served_already() -> None:
    log = findings_of(*STARTED, oom(), *SERVING[2:], oom())
    assert [event.after_ready for event in log.lives[0].events] == [False, True]


def test_a_flood_of_errors_takes_bounded_memory() -> None:
    log = findings_of(*SERVING, *[oom()] * 500, *["Killed"] * 500)
    life = log.lives[0]
    assert life.events_seen == 500
    assert len(life.events) + len(life.signs) < 100


def test_a_silent_log_has_no_life() -> None:
    assert findings_of("INFO nothing", "").lives == ()


def test_the_names_of_the_processes_tell_the_engine() -> None:
    new, old = (
        findings_of(f"(EngineCore_DP0 pid=7) {oom()}"),
        findings_of(f"(VllmWorkerProcess pid=7) {oom()}"),
    )
    assert (new.lives[0].facts.engine, old.lives[0].facts.engine) == ("V1", "V0")
