from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.telemetry.families import Family, Figure
from proxy.workers.changes import Changes
from proxy.workers.roster import Roster
from tests.support.worker_reports import admission, counted, report, totals

if TYPE_CHECKING:
    import pytest

    from proxy.workers.report import WorkerReport


class Member:
    """A worker that answers with what the test has set, if it answers."""

    def __init__(self, latest: WorkerReport | None = None, pid: int = 100) -> None:
        self.pid = pid
        self.latest = latest
        self.next = latest
        self.changes: list[Changes] = []

    def change(self, changes: Changes) -> None:
        self.changes.append(changes)

    async def ask(self, within_s: float) -> bool:
        await asyncio.sleep(0)
        self.latest = self.next or self.latest
        return self.next is not None and within_s > 0


def serving(ok: float, in_flight: float = 0, arrivals: int = 0, pid: int = 100) -> Member:
    told = report(
        page=counted(ok, in_flight),
        totals=totals(arrivals),
        admission=admission(int(in_flight)),
    )
    return Member(told, pid)


def roster() -> Roster:
    used = (
        Family(
            "process_cpu_seconds",
            "counter",
            "Time.",
            (Figure("process_cpu_seconds_total", {}, 0.5),),
        ),
    )
    return Roster(lambda: used)


def shown(one: Roster, name: str) -> float | None:
    figures = (figure for family in one.page() for figure in family.figures)
    return next((figure.value for figure in figures if figure.name == name), None)


def test_one_page_tells_of_all_workers_and_of_the_parent() -> None:
    both = roster()
    both.join(1, serving(ok=3, in_flight=1))
    both.join(2, serving(ok=4, in_flight=2))
    assert shown(both, "sluice_requests_total") == 7
    assert shown(both, "sluice_in_flight") == 3
    assert shown(both, "process_cpu_seconds_total") == 0.5
    assert shown(both, "sluice_workers") == 2
    assert shown(both, "sluice_workers_lost_total") == 0


def test_counters_never_fall_and_gauges_are_of_those_who_live() -> None:
    both = roster()
    both.join(1, serving(ok=3, in_flight=1, arrivals=5))
    both.join(2, serving(ok=4, in_flight=2, arrivals=6))
    both.leave(1, lost=True)
    assert shown(both, "sluice_requests_total") == 7
    assert shown(both, "sluice_in_flight") == 2
    assert both.totals().arrivals == 11
    both.join(1, serving(ok=10))
    both.leave(1, lost=True)
    both.leave(2, lost=False)
    assert shown(both, "sluice_requests_total") == 17
    assert shown(both, "sluice_in_flight") is None
    assert shown(both, "sluice_workers") == 0
    assert shown(both, "sluice_workers_lost_total") == 2


def test_whoever_ends_before_it_has_said_anything_leaves_nothing() -> None:
    one = roster()
    one.join(1, Member())
    assert one.reports == []
    assert not one.serves(1)
    one.leave(1, lost=True)
    assert shown(one, "sluice_requests_total") is None
    assert one.totals().arrivals == 0


def test_a_refresh_asks_all_of_them_at_once() -> None:
    async def scenario() -> None:
        both, first, second = roster(), serving(ok=1), serving(ok=1)
        both.join(1, first)
        both.join(2, second)
        first.next = report(page=counted(5))
        second.next = report(page=counted(6))
        await both.refresh()
        assert shown(both, "sluice_requests_total") == 11

    asyncio.run(scenario())


def test_of_one_that_does_not_answer_the_last_words_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        one, silent = roster(), serving(ok=4)
        silent.next = None
        one.join(1, silent)
        assert one.answering == one.reports, "nobody has asked it yet"
        for _ in range(2):
            await one.refresh()
        assert shown(one, "sluice_requests_total") == 4
        assert (len(one.reports), one.answering) == (1, [])
        assert shown(one, "sluice_workers") == 0
        assert caplog.text.count("worker 1 (process 100) does not answer") == 1
        silent.next = report(page=counted(5))
        await one.refresh()
        assert one.answering == one.reports
        assert shown(one, "sluice_workers") == 1

    asyncio.run(scenario())


def test_workers_are_told_apart_by_number_in_order() -> None:
    both = roster()
    both.join(2, serving(ok=0, in_flight=2, pid=202))
    both.join(1, serving(ok=0, in_flight=1, pid=201))
    both.join(3, Member(pid=203))
    told = both.workers()
    assert told[0] == {
        "number": 1,
        "pid": 201,
        "state": "serving",
        "in_flight": 1,
        "queue_depth": 0,
        "draining": False,
        "restarts": 0,
    }
    assert [(one["number"], one["pid"]) for one in told] == [(1, 201), (2, 202), (3, 203)]
    assert [both.serves(number) for number in (1, 2, 3, 4)] == [True, True, False, False]


def test_of_each_worker_is_told_how_it_is_and_how_often_it_was_started_again() -> None:
    async def scenario() -> None:
        one, first, second = roster(), serving(ok=0), serving(ok=0)
        one.join(1, first)
        one.join(2, second)
        first.next = None
        second.next = report(admission=admission(draining=True))
        await one.refresh()
        assert [told["state"] for told in one.workers()] == ["silent", "draining"]
        one.leave(1, lost=True)
        died, _ = one.workers()
        assert (died["state"], died["pid"], died["in_flight"]) == ("starting", None, None)
        one.join(1, Member(pid=301))
        successor, _ = one.workers()
        assert (successor["state"], successor["pid"]) == ("starting", 301)
        assert (successor["in_flight"], successor["restarts"]) == (None, 1)

    asyncio.run(scenario())


def test_whether_the_gateway_drains_is_known_without_a_worker() -> None:
    one = roster()
    assert shown(one, "sluice_draining") == 0
    one.stopping = True
    assert shown(one, "sluice_draining") == 1


def test_a_change_is_for_all_of_them_and_for_those_who_come_later() -> None:
    both, first, second = roster(), serving(ok=0), serving(ok=0)
    both.join(1, first)
    assert first.changes == []
    for draining in (True, False):
        both.change(Changes({"shadow": True}, draining))
        assert both.draining == draining
    both.join(2, second)
    assert [one.draining for one in first.changes] == [True, False]
    assert second.changes == [Changes({"shadow": True})]


def test_there_are_seats_where_somebody_answers_and_does_not_go() -> None:
    one, member = roster(), serving(ok=0)
    assert not one.has_seats()
    one.join(1, Member())
    assert not one.has_seats(), "it does not serve yet"
    one.join(2, member)
    assert one.has_seats()
    member.latest = report(admission=admission(limit=0))
    assert not one.has_seats()
    member.latest = report(admission=admission(draining=True))
    assert not one.has_seats(), "it is about to go"
    one.paused = True
    assert one.has_seats(), "a drain of all can be taken back"


def test_one_that_does_not_answer_has_no_seats_for_others() -> None:
    async def scenario() -> None:
        one, silent = roster(), serving(ok=0)
        one.join(1, silent)
        silent.next = None
        await one.refresh()
        assert not one.has_seats()

    asyncio.run(scenario())
