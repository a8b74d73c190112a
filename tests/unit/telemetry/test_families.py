from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.samples import Exemplar

from proxy.telemetry.families import (
    Example,
    Family,
    Figure,
    as_metrics,
    families,
    lasting,
    together,
)


def gauge(name: str, *values: tuple[dict[str, str], float]) -> Family:
    return Family(name, "gauge", "help", tuple(Figure(name, *value) for value in values))


def counted(value: float, **labels: str) -> Family:
    return Family("seen", "counter", "help", (Figure("seen_total", labels, value),))


def values(page: tuple[Family, ...]) -> dict[str, float]:
    return {
        f"{figure.name}{sorted(figure.labels.values())}": figure.value
        for family in page
        for figure in family.figures
    }


def test_a_page_survives_being_taken_apart() -> None:
    registry = CollectorRegistry()
    Counter("seen", "Seen.", ["by"], registry=registry).labels("me").inc(3)
    Histogram("took", "Took.", registry=registry, buckets=[1, 2]).observe(1.5)
    collected = list(registry.collect())
    assert list(as_metrics(families(collected))) == collected


def test_counters_are_added_up_label_by_label() -> None:
    page = together([[counted(1, by="a")], [counted(2, by="a")], [counted(5, by="b")]])
    assert values(page) == {"seen_total['a']": 3, "seen_total['b']": 5}


def test_histograms_are_added_up_bucket_by_bucket() -> None:
    def histogram(*observed: float) -> tuple[Family, ...]:
        registry = CollectorRegistry()
        took = Histogram("took", "Took.", registry=registry, buckets=[1, 2])
        for value in observed:
            took.observe(value)
        return families(registry.collect())

    both = {
        name: value
        for name, value in values(together([histogram(0.5, 3), histogram(1.5)])).items()
        if "created" not in name
    }
    assert both == {
        "took_bucket['1.0']": 1,
        "took_bucket['2.0']": 2,
        "took_bucket['+Inf']": 3,
        "took_count[]": 3,
        "took_sum[]": 5.0,
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sluice_in_flight", 5), ("sluice_upstream_stalled", 3), ("sluice_upstream_up", 2)],
    ids=["sum", "most", "least"],
)
def test_gauges_go_by_their_rule(name: str, expected: float) -> None:
    one, other = gauge(name, ({"upstream": "u"}, 2)), gauge(name, ({"upstream": "u"}, 3))
    assert values(together([[one], [other]])) == {f"{name}['u']": expected}


def test_an_engine_that_only_one_worker_knows_is_there() -> None:
    one = gauge("sluice_in_flight", ({"upstream": "a"}, 1))
    other = gauge("sluice_in_flight", ({"upstream": "b"}, 1))
    assert set(values(together([[one], [other]]))) == {
        "sluice_in_flight['a']",
        "sluice_in_flight['b']",
    }


def test_a_gauge_without_a_rule_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="new_gauge"):
        together([[gauge("new_gauge", ({}, 1))]])


def test_of_a_process_that_has_ended_remains_what_it_counted() -> None:
    page = [gauge("sluice_in_flight", ({}, 7)), counted(4, by="a")]
    assert values(lasting(page)) == {"seen_total['a']": 4}


def test_what_processes_use_can_be_put_together() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    page = families(registry.collect())
    both = values(together([page, page]))
    assert both["process_open_fds[]"] == 2 * values(page)["process_open_fds[]"]
    assert both["process_start_time_seconds[]"] == values(page)["process_start_time_seconds[]"]


def test_an_empty_family_is_none_the_less_a_family() -> None:
    (family,) = families([GaugeMetricFamily("sluice_store_up", "help")])
    assert together([[family], [family]]) == (family,)


def test_a_bucket_keeps_an_example_of_what_it_has_counted() -> None:
    def bucket(example: Example | None) -> Family:
        figure = Figure("took_bucket", {"le": "+Inf"}, 1, example)
        return Family("took", "histogram", "help", (figure,))

    known = Example({"trace_id": "abc"}, 0.7)
    for page in ([bucket(None)], [bucket(known)]), ([bucket(known)], [bucket(None)]):
        (family,) = together(page)
        assert family.figures == (Figure("took_bucket", {"le": "+Inf"}, 2, known),)
        (metric,) = as_metrics([family])
        assert metric.samples[0].exemplar == Exemplar({"trace_id": "abc"}, 0.7)
        assert families([metric]) == (family,)
