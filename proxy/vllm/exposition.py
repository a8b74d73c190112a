"""The samples of a Prometheus text page, with the lines they stand on."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Possessive quantifiers: a line that does not match is given up in linear time.
_QUOTED = r'"(?:[^"\\\n]|\\.)*+"'
_LABELS = rf'\{{((?:[^"}}\n]|{_QUOTED})*+)\}}'
_SAMPLE = re.compile(rf"\s*+([a-zA-Z_:][\w:]*+)\s*+(?:{_LABELS})?\s*+([^\s{{]\S*+)")
_LABEL = re.compile(rf"([a-zA-Z_]\w*+)\s*+=\s*+({_QUOTED})")


@dataclass(frozen=True, slots=True)
class Sample:
    """`value` is finite or None; `line` counts from 1."""

    line: int
    text: str
    name: str
    labels: dict[str, str]
    value: float | None


def read_samples(page: str, *prefixes: str) -> Iterator[Sample]:
    """Those whose names begin with one of `prefixes`. Never raises; a line that was cut at the end
    of the page is left out."""
    lines = page.split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        if not line.startswith(prefixes):
            continue
        match = _SAMPLE.match(line)
        if match:
            name, labels, value = match.groups()
            pairs = {key: quoted[1:-1] for key, quoted in _LABEL.findall(labels or "")}
            yield Sample(number, line.rstrip(), name, pairs, _finite(value))


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
