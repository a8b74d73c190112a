from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.live_settings import LiveSettings
from proxy.workers.changes import Changes, ChangesOfAll
from proxy.workers.roster import Roster
from tests.support.gateway_in_memory import gateway, settings
from tests.support.scripted_app import Hold, ScriptedApp
from tests.support.virtual_time import run, settle
from tests.support.worker_reports import report

if TYPE_CHECKING:
    from proxy.workers.report import WorkerReport

pytestmark = pytest.mark.usefixtures("clean_environment")


class Member:
    def __init__(self) -> None:
        self.pid = 7
        self.latest: WorkerReport | None = report(running=2)
        self.changes: list[Changes] = []

    async def ask(self, within_s: float) -> bool:
        return within_s > 0

    def change(self, changes: Changes) -> None:
        self.changes.append(changes)


def test_what_is_written_is_what_is_read() -> None:
    changes = Changes({"max_in_flight": 3, "queue_timeout": 0.5, "shadow": True}, draining=True)
    assert Changes.read(changes.written()) == changes
    with pytest.raises(msgspec.ValidationError):
        Changes.read(msgspec.msgpack.encode({"values": {"max_in_flight": [1]}}))


def test_a_worker_adopts_them_while_requests_run() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with gateway(ScriptedApp(hold)) as sluice:
            running = await sluice.hold_seats(2)
            control = sluice.application.control
            Changes({"max_in_flight": 1, "queue_timeout": 2.5}, draining=True).adopted_by(control)
            assert sluice.metric("sluice_concurrency_limit") == 1
            assert control.is_on
            Changes({"max_in_flight": 4}).adopted_by(control)
            assert not control.is_on
            running += await sluice.hold_seats(2)
            await settle()
            assert sluice.in_flight == 4
            hold.release()
            for exchange in running:
                assert (await exchange.response()).status == 200

    run(scenario())


def test_the_drain_and_the_settings_do_not_undo_each_other() -> None:
    roster, member, live = Roster(lambda: ()), Member(), LiveSettings(settings())
    roster.join(1, member)
    switch = ChangesOfAll(live, roster)
    live.change({"max_in_flight": 1})
    assert switch.switch(on=True)
    live.change({"shadow": True})
    assert (switch.is_on, switch.running) == (True, 2)
    assert [one.draining for one in member.changes] == [False, True, True]
    assert [one.values["max_in_flight"] for one in member.changes] == [1, 1, 1]
    assert member.changes[-1].values["shadow"] is True
    assert switch.switch(on=False)
    assert not switch.is_on


def test_a_gateway_that_ends_drains_for_good() -> None:
    roster = Roster(lambda: ())
    switch = ChangesOfAll(LiveSettings(settings()), roster)
    roster.stopping = True
    assert switch.switch(on=True)
    assert not switch.switch(on=False)
    assert switch.is_on
