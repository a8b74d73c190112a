"""What stands on a Prometheus page, real or simulated, ours or the engine's."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(page: str) -> Samples:
    """All of it, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def samples_of(page: str, name: str) -> Samples:
    """Those of one name. To parse a whole page takes longer than to have it served, and tests ask
    for a value again and again."""
    beginnings = (f"{name}{{", f"{name} ")
    return samples("\n".join(line for line in page.split("\n") if line.startswith(beginnings)))
