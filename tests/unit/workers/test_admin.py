from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from proxy.live_settings import LiveSettings
from proxy.telemetry.sharing_view import SharingView
from proxy.workers.admin import admin_of, facts_of
from proxy.workers.roster import Roster
from tests.support.asgi_transport import AsgiClient
from tests.support.gateway_in_memory import settings
from tests.support.virtual_time import run
from tests.support.worker_reports import DOWN, URL, admission, counted, report, totals

if TYPE_CHECKING:
    from proxy.workers.changes import Changes
    from proxy.workers.report import WorkerReport


TOKEN = "the-token-of-an-operator"


class Member:
    """Has something new to tell each time that it is asked."""

    def __init__(self, latest: WorkerReport) -> None:
        self.pid = 7
        self.latest = latest
        self.asked = 0
        self.changes: list[Changes] = []

    def change(self, changes: Changes) -> None:
        self.changes.append(changes)

    async def ask(self, within_s: float) -> bool:
        await asyncio.sleep(0)
        self.asked += 1
        self.latest = report(page=counted(self.asked), totals=totals(self.asked), running=3)
        return within_s > 0


class Gateway:
    def __init__(self, *members: Member, shadow: bool = True) -> None:
        self.roster = Roster(lambda: ())
        for number, member in enumerate(members, start=1):
            self.roster.join(number, member)
        chosen = settings(queue_timeout=3, shadow=shadow, admin_token=TOKEN)
        live = LiveSettings(chosen)
        facts = facts_of(self.roster, chosen, live)
        self.app = admin_of(self.roster, facts, lambda: True, live, chosen.admin_token)

    async def ask(self, path: bytes, method: str = "GET", body: object = None) -> tuple[int, str]:
        fields = [(b"authorization", f"Bearer {TOKEN}".encode())]
        content = b"" if body is None else json.dumps(body).encode()
        answer = await AsgiClient(self.app).request(method, path, fields, content)
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
        gateway.roster.stopping = True
        status, body = await gateway.ask(b"/readyz")
        assert (status, "draining" in body) == (503, True)
        gateway = Gateway()
        status, body = await gateway.ask(b"/readyz")
        assert (status, json.loads(body)["reason"]) == (503, "no worker serves")
        assert (await gateway.ask(b"/healthz"))[0] == 200

    run(scenario())


def test_it_is_not_ready_once_no_worker_has_a_seat_that_the_store_would_let_it_give_out() -> None:
    refused = SharingView(trouble="no password")

    class Refused(Member):
        async def ask(self, within_s: float) -> bool:
            return within_s > 0

    async def scenario() -> None:
        one = Refused(report(sharing=refused, admission=admission(limit=0)))
        status, body = await Gateway(one, shadow=False).ask(b"/readyz")
        assert (status, "no password" in json.loads(body)["reason"]) == (503, True)
        other = Refused(report(sharing=refused))
        assert (await Gateway(one, other, shadow=False).ask(b"/readyz"))[0] == 200

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


def test_a_change_reaches_every_worker_before_it_is_said_to_be_made() -> None:
    async def scenario() -> None:
        first, second = Member(report()), Member(report())
        gateway = Gateway(first, second)
        status, told = await gateway.ask(b"/admin/settings", "PATCH", {"queue_timeout": 1.5})
        assert (status, json.loads(told)["queue_timeout"]["now"]) == (200, 1.5)
        for member in (first, second):
            assert [one.values["queue_timeout"] for one in member.changes] == [1.5]
            assert member.asked == 1, "who answers has adopted it"
        told = (await gateway.ask(b"/status.json"))[1]
        assert json.loads(told)["admission"]["queue_timeout_s"] == 1.5
        assert json.loads(told)["changed"][0]["at_start"] == 3
        status, _ = await gateway.ask(b"/admin/settings", "PATCH", {"queue_timeout": -1})
        assert (status, len(first.changes)) == (400, 1)

    run(scenario())


def test_a_drain_is_of_all_workers_and_can_be_taken_back_until_the_gateway_ends() -> None:
    async def scenario() -> None:
        member = Member(report())
        gateway = Gateway(member, Member(report()))
        for on, ready in ((True, 503), (False, 200)):
            status, told = await gateway.ask(b"/admin/drain", "PUT", {"draining": on})
            assert (status, json.loads(told)) == (200, {"draining": on, "running": 6})
            assert member.changes[-1].draining == on
            assert (await gateway.ask(b"/readyz"))[0] == ready
        gateway.roster.stopping = True
        assert (await gateway.ask(b"/admin/drain", "PUT", {"draining": False}))[0] == 409
        assert len(member.changes) == 2

    run(scenario())
