"""docs/metrics.md says what the gateway exports: every metric, its type, its labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.admission.snapshot import AdmissionSnapshot, UpstreamSnapshot
from proxy.telemetry.declarations import DURATION_BOUNDS_S, TOGETHER, Together
from proxy.telemetry.engine_view import EngineView
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.sharing_view import SharingView
from proxy.workers.admin import SharedPage
from proxy.workers.roster import Roster

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<type>\w+) \|(?P<labels>[^|]*)\|", re.MULTILINE)
OPEN_SETS = {"le", "upstream", "route", "version", "python"}


class Documented(NamedTuple):
    name: str
    type: str
    labels: frozenset[str]


def documented() -> list[Documented]:
    return [
        Documented(row["name"], row["type"], frozenset(re.findall(r"`(\w+)`", row["labels"])))
        for row in ROW.finditer(PAGE)
    ]


def everything_exported() -> str:
    """A page on which nothing is missing for want of an event or of knowledge."""
    snapshot = AdmissionSnapshot((UpstreamSnapshot("u", 1, 2, suspended=False),), 0, 2, False)
    engine = EngineView(
        up=True,
        stalled=False,
        running=1,
        waiting=0,
        kv_cache_usage=0.5,
        metrics_age_s=1,
        taken_out=False,
        open_requests=0,
    )
    metrics = Metrics(
        *(("chat",), lambda: snapshot, lambda: {"u": engine}, lambda: "max_in_flight", lambda: 0.1),
        sharing=lambda: SharingView(is_store_up=True, gateways=2, age_s=0.1, leases={"u": 1}),
    )
    metrics.route("chat").finished(RequestOutcome.OK, 1.0, 0.1)
    roster = Roster(metrics.families)  # whose own page it is makes no difference here
    return SharedPage(roster).page()[0].decode()


def exported() -> list[Documented]:
    return [
        Documented(
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            frozenset().union(*(sample.labels for sample in family.samples)) - {"le"},
        )
        for family in text_string_to_metric_families(everything_exported())
    ]


def test_every_exported_metric_is_documented_with_its_type_and_labels() -> None:
    assert sorted(exported()) == sorted(documented())


def test_no_metric_is_exported_without_a_sample_here() -> None:
    families = text_string_to_metric_families(everything_exported())
    assert [family.name for family in families if not family.samples] == []


def test_every_value_of_a_closed_label_is_documented() -> None:
    values = {
        value
        for family in text_string_to_metric_families(everything_exported())
        for sample in family.samples
        for label, value in sample.labels.items()
        if label not in OPEN_SETS
    }
    assert "queue_full" in values
    assert {value for value in values if f"`{value}`" not in PAGE} == set()


def test_the_documented_buckets_are_the_real_ones() -> None:
    listed = re.search(r"from 1 ms to 600 s: (.*?)\. A queue", PAGE, re.DOTALL)
    assert listed is not None
    milliseconds, seconds = listed[1].split("then")
    numbers = [float(number) / 1000 for number in re.findall(r"[\d.]+", milliseconds)]
    numbers += [float(number) for number in re.findall(r"[\d.]+", seconds)]
    assert tuple(numbers) == DURATION_BOUNDS_S


@pytest.mark.parametrize(
    ("rule", "words"),
    [(Together.SUM, "added up"), (Together.MOST, "the highest"), (Together.LEAST, "the lowest")],
)
def test_what_several_workers_gauges_are_together_is_documented(rule: Together, words: str) -> None:
    row = re.search(rf"^\| {words} \|(.*)\|$", PAGE, re.MULTILINE)
    assert row is not None
    listed = set(re.findall(r"`((?:sluice|process)_\w+)`", row[1]))
    assert listed == {name for name, how in TOGETHER.items() if how is rule}
