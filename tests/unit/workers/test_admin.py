from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from proxy.workers.admin import admin_of, facts_of
from proxy.workers.roster import Roster
from tests.support.asgi_transport import AsgiClient
from tests.support.gateway_in_memory import settings
from tests.support.virtual_time import run
from tests.support.worker_reports import DOWN, URL, admission, counted, report, totals

if TYPE_CHECKING:
    from proxy.workers.report import WorkerReport


class Member:
    """Has something new to tell each time that it is asked."""

    def __init__(self, latest: WorkerReport) -> None:
        self.pid = 7
        self.latest = latest
        self.asked = 0

    async def ask(self, within_s: float) -> bool:
        await asyncio.sleep(0)
        self.asked += 1
        self.latest = report(page=counted(self.asked), totals=totals(self.asked))
        return within_s > 0


class Gateway:
    def __init__(self, *members: Member) -> None:
        self.roster = Roster(lambda: ())
        for number, member in enumerate(members, start=1):
            self.roster.join(number, member)
        facts = facts_of(self.roster, settings(queue_timeout=3, shadow=True))
        self.app = admin_of(self.roster, facts, lambda: True)

    async def ask(self, path: bytes) -> tuple[int, str]:
        answer = await AsgiClient(self.app).request("GET", path)
        return answer.status, answer.body.decode()


def test_metrics_are_of_this_moment_and_of_all() -> None:
    async def scenario() -> None:
        gateway = Gateway(Member(report()), Member(report()))
        status, page = await gateway.ask(b"/metrics")
        assert status == 200
        assert 'sluice_requests_total{outcome="ok"} 2.0' in page
        assert "sluice_workers 2.0" in page
        assert 'sluice_requests_total{outcome="ok"} 4.0' in (await gateway.ask(b"/metrics"))[1]

    run(scenario())


def test_it_is_ready_while_a_worker_is_and_not_without_or_while_it_drains() -> None:
    async def scenario() -> None:
        gateway = Gateway(Member(report(engines={URL: DOWN})))
        assert (await gateway.ask(b"/readyz"))[0] == 200, "it has come up since it said so"
        gateway.roster.draining = True
        status, body = await gateway.ask(b"/readyz")
        assert (status, "draining" in body) == (503, True)
        gateway = Gateway()
        status, body = await gateway.ask(b"/readyz")
        assert (status, json.loads(body)["reason"]) == (503, "no worker serves")
        assert (await gateway.ask(b"/healthz"))[0] == 200

    run(scenario())


def test_the_status_is_that_of_all_and_says_how_the_work_is_dealt_out() -> None:
    async def scenario() -> None:
        told = json.loads(
            (await Gateway(Member(report()), Member(report())).ask(b"/status.json"))[1]
        )
        assert told["admission"]["limit"] == 2 * admission().limit
        assert told["admission"]["queue_timeout_s"] == 3
        assert told["shadow"]
        assert told["totals"]["arrivals"] == 2
        assert told["engines"][0]["url"] == URL
        assert told["binding_limit"]["which"] == "max_in_flight"
        assert [one["number"] for one in told["workers"]] == [1, 2]

    run(scenario())


def test_without_a_worker_there_is_a_status_all_the_same() -> None:
    async def scenario() -> None:
        told = json.loads((await Gateway().ask(b"/status.json"))[1])
        assert (told["engines"], told["workers"], told["binding_limit"]) == ([], [], None)

    run(scenario())


def test_the_page_for_people_asks_nobody() -> None:
    async def scenario() -> None:
        member = Member(report())
        assert (await Gateway(member).ask(b"/status"))[0] == 200
        assert member.asked == 0

    run(scenario())


def test_a_worker_that_does_not_answer_makes_nothing_ready() -> None:
    class Silent(Member):
        async def ask(self, within_s: float) -> bool:
            return within_s < 0

    async def scenario() -> None:
        assert (await Gateway(Silent(report())).ask(b"/readyz"))[0] == 503
        assert (await Gateway(Silent(report()), Member(report())).ask(b"/readyz"))[0] == 200

    run(scenario())
