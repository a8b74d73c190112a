from __future__ import annotations

import pytest

from tests.bench.storm.clients import Served, Tally
from tests.bench.storm.measure import Storm


def _columns(tally: Tally) -> dict[str, float]:
    return Storm(
        offered_per_s=25.0,
        good_per_s=8.0,
        tally=tally,
        waiting=0,
        running=7,
        unread=0,
        normal_after_s=1.0,
        left=0,
        client_share=0.1,
        noise_shares=(0.0, 0.0),
    ).columns()


def test_who_sat_out_the_queue_timeout_was_not_refused_at_once() -> None:
    columns = _columns(Tally(offered=4, tries=5, refusals_s=[0.001, 0.002, 0.003, 5.01]))
    assert columns["refusal_ms"] == pytest.approx(3.0)
    assert columns["in_vain"] == pytest.approx(20.0)
    assert columns["tries"] == 1.25


def test_the_first_byte_counts_from_the_first_try_and_from_its_own() -> None:
    columns = _columns(Tally(offered=1, tries=2, served=[Served(9.0, 3.0, 2.5, 0.5)]))
    assert (columns["first_byte_s"], columns["own_first_byte_s"]) == (2.5, 0.5)


def test_what_did_not_happen_has_no_figure() -> None:
    assert not _columns(Tally()).keys() & {"refusal_ms", "first_byte_s", "own_first_byte_s"}
