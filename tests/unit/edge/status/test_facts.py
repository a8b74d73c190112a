from __future__ import annotations

import json
from dataclasses import replace

import pytest

from proxy.admission.snapshot import AdmissionSnapshot, TenantSnapshot
from proxy.edge.live_changes import LiveValue
from proxy.telemetry.sharing_view import SharingView
from tests.support.status_facts import SEATS, URL, status_facts


def test_what_is_now_can_be_written_as_json() -> None:
    now = json.loads(json.dumps(status_facts().now()))
    assert now["admission"] == {
        "in_flight": 3,
        "limit": 7,
        "queue_depth": 2,
        "max_queue_depth": 9,
        "queue_timeout_s": 5.0,
    }
    assert now["totals"] == {"arrivals": 5, "retries": 1, "ok": 3, "shed": {"queue_full": 2}}
    assert now["binding_limit"] == {"which": "max_in_flight", "why": "seven seats"}
    assert now["at"] == 1000.0


def test_an_engine_is_told_with_what_it_says_of_itself() -> None:
    (engine,) = status_facts().now()["engines"]
    assert engine["url"] == URL
    assert (engine["up"], engine["reason"]) == (True, "answers")
    assert (engine["in_flight"], engine["limit"]) == (3, 7)
    assert engine["open_requests"] == 2
    assert (engine["running"], engine["waiting"]) == (3.0, None), "unknown is not zero"


def test_an_engine_that_was_removed_is_there_until_its_requests_have_ended() -> None:
    (engine,) = status_facts(engine_states=dict, views=dict).now()["engines"]
    assert (engine["reason"], engine["in_flight"]) == ("removed", 3)


def test_without_an_engine_no_limit_binds() -> None:
    assert status_facts(binding_limit=lambda: None).now()["binding_limit"] is None


def test_the_busiest_tenants_come_first_and_only_some_are_shown() -> None:
    tenants = [TenantSnapshot(f"t{number:02}", number % 5, 1, 1.0) for number in range(50)]
    shown = status_facts(tenants=lambda: tenants).now()["tenants"]
    assert len(shown) == 20
    assert [one["in_flight"] for one in shown] == [4] * 10 + [3] * 10
    assert shown[0]["name"] == "t04"


def test_whoever_has_no_name_is_shown_as_such() -> None:
    (tenant,) = status_facts(tenants=lambda: [TenantSnapshot("", 1, 0, 1.0)]).now()["tenants"]
    assert tenant["name"] == "(none)"


def test_everything_includes_the_history() -> None:
    told = status_facts()
    told.sample()
    assert told.everything()["history"]["in_flight"] == [3]
    assert "history" not in told.now()


def test_workers_are_shown_where_there_are_several() -> None:
    assert "workers" not in status_facts().now()
    assert status_facts(workers=lambda: [{"number": 1}]).now()["workers"] == [{"number": 1}]


def test_the_store_of_a_shared_limit_is_shown_where_there_is_one() -> None:
    assert "store" not in status_facts().now()
    view = SharingView(gateways=3, age_s=4.5, trouble="Connection refused")
    assert status_facts(sharing=lambda: view).now()["store"] == {
        "up": False,
        "trouble": "Connection refused",
        "gateways": 3,
        "age_s": 4.5,
    }
    assert status_facts(sharing=lambda: None).now()["store"] is None


def test_it_is_barred_without_a_seat_and_a_store_that_would_give_one() -> None:
    away = SharingView(trouble="no password")
    none = AdmissionSnapshot((replace(SEATS, limit=0),), 0, 9, draining=False)
    barred = status_facts(sharing=lambda: away, admission=lambda: none)
    assert barred.bar() == (
        "no seat may be given out until the store of the shared limit answers: no password"
    )
    assert status_facts(sharing=lambda: away).bar() == "", "it goes on with what it holds"
    well = SharingView(is_store_up=True)
    assert status_facts(sharing=lambda: well, admission=lambda: none).bar() == ""
    assert status_facts(sharing=lambda: None, admission=lambda: none).bar() == ""
    assert status_facts(admission=lambda: none).bar() == ""


@pytest.mark.parametrize(("at_start", "now"), [(True, None), (False, True)])
def test_in_shadow_mode_everybody_gets_in_without_a_seat(at_start: bool, now: bool | None) -> None:
    none = AdmissionSnapshot((replace(SEATS, limit=0),), 0, 9, draining=False)
    live = [] if now is None else [LiveValue("shadow", "SLUICE_SHADOW", now, at_start)]
    facts = status_facts(
        sharing=SharingView, admission=lambda: none, shadow=at_start, live=lambda: live
    )
    assert facts.bar() == ""


def test_what_was_changed_is_shown_as_it_is_now_and_was_at_the_start() -> None:
    values = [
        LiveValue("max_in_flight", "SLUICE_MAX_IN_FLIGHT", 7, 7),
        LiveValue("queue_timeout", "SLUICE_QUEUE_TIMEOUT", 1.5, 5.0),
        LiveValue("shadow", "SLUICE_SHADOW", True, False),
    ]
    now = status_facts(live=lambda: values).now()
    assert (now["shadow"], now["admission"]["queue_timeout_s"]) == (True, 1.5)
    assert now["changed"] == [
        {"setting": "SLUICE_QUEUE_TIMEOUT", "now": 1.5, "at_start": 5.0},
        {"setting": "SLUICE_SHADOW", "now": True, "at_start": False},
    ]


def test_where_nothing_changes_all_is_as_at_the_start() -> None:
    assert status_facts().now()["changed"] == []
