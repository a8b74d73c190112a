"""Defaults that follow from other settings, or from where the process runs."""

from __future__ import annotations

import pytest

from proxy.env_values.derived_defaults import (
    console_on_a_terminal,
    seats_of_all_upstreams,
    share_of_max_num_seqs,
)


@pytest.mark.parametrize(
    ("max_num_seqs", "headroom", "seats"),
    # 100 x 0.29 is 28.999... in binary: the share is that of the number as it is written.
    [(64, 0.9, 57), (100, 0.29, 29), (2, 0.1, 1), (1, 0.9, 1), (None, 0.9, 0)],
)
def test_seats_are_the_share_rounded_down_and_at_least_one(
    max_num_seqs: int | None, headroom: float, seats: int
) -> None:
    assert share_of_max_num_seqs({"max_num_seqs": max_num_seqs, "headroom": headroom}) == seats


def test_the_queue_has_as_many_places_as_all_engines_have_seats() -> None:
    assert seats_of_all_upstreams({"max_in_flight": 8, "upstream_urls": ("a",)}) == 8
    assert seats_of_all_upstreams({"max_in_flight": 8, "upstream_urls": ("a", "b")}) == 16


@pytest.mark.parametrize(("terminal", "form"), [(True, "console"), (False, "json")])
def test_lines_are_for_people_where_people_look(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, form: str
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    assert console_on_a_terminal() == form
