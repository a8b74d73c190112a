"""The figures of a metrics page as plain values, which can be sent to another process and put
together with those of others.

Those of several workers, and of workers that have ended, make one page:

    counters, histograms    the sum of all that there have ever been: they never fall
    gauges                  of the workers that live, by the rule in declarations.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Metric
from prometheus_client.samples import Exemplar

from proxy.telemetry.declarations import TOGETHER, Together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.samples import Sample

_GAUGE = "gauge"


class Example(NamedTuple):
    """One of the things that a bucket has counted, as OpenMetrics shows it (an exemplar)."""

    labels: dict[str, str]
    value: float


class Figure(NamedTuple):
    """One line of a page: `name` with what a histogram appends to it."""

    name: str
    labels: dict[str, str]
    value: float
    example: Example | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with all its lines. `kind` as Prometheus calls it."""

    name: str
    kind: str
    help: str
    figures: tuple[Figure, ...]


def families(metrics: Iterable[Metric]) -> tuple[Family, ...]:
    """Of what a registry has collected."""
    return tuple(
        Family(
            metric.name,
            metric.type,
            metric.documentation,
            tuple(map(_figure, metric.samples)),
        )
        for metric in metrics
    )


def as_metrics(page: Iterable[Family]) -> Iterator[Metric]:
    """For a registry to write down."""
    for family in page:
        metric = Metric(family.name, family.help, family.kind)
        for name, labels, value, example in family.figures:
            exemplar = None if example is None else Exemplar(example.labels, example.value)
            metric.add_sample(name, labels, value, exemplar=exemplar)
        yield metric


def together(pages: Iterable[Iterable[Family]]) -> tuple[Family, ...]:
    """One page of several. Raises KeyError for a gauge without a rule."""
    same: dict[str, list[Family]] = {}
    for page in pages:
        for family in page:
            same.setdefault(family.name, []).append(family)
    return tuple(map(_one_of, same.values()))


def lasting(page: Iterable[Family]) -> tuple[Family, ...]:
    """What remains of a process when it has ended: what it has counted, not how it was."""
    return tuple(family for family in page if family.kind != _GAUGE)


def _one_of(same: list[Family]) -> Family:
    first = same[0]
    rule = TOGETHER[first.name] if first.kind == _GAUGE else Together.SUM
    figures: dict[tuple[str, tuple[tuple[str, str], ...]], Figure] = {}
    for figure in (figure for family in same for figure in family.figures):
        key = (figure.name, tuple(figure.labels.items()))
        known = figures.get(key)
        figures[key] = figure if known is None else _joined(rule, known, figure)
    return Family(first.name, first.kind, first.help, tuple(figures.values()))


def _joined(rule: Together, one: Figure, other: Figure) -> Figure:
    match rule:
        case Together.SUM:
            value = one.value + other.value
        case Together.MOST:
            value = max(one.value, other.value)
        case Together.LEAST:
            value = min(one.value, other.value)
    return Figure(one.name, one.labels, value, one.example or other.example)


def _figure(sample: Sample) -> Figure:
    example = sample.exemplar and Example(dict(sample.exemplar.labels), sample.exemplar.value)
    return Figure(sample.name, sample.labels, float(sample.value), example)
