"""The curve of a tuning as a page: goodput with its spread, and the limit that is recommended."""

from __future__ import annotations

import json
import re
from typing import Any

from proxy.replay.limit_curve import limit_curve
from proxy.replay.report.tuning_page import render_tuning
from tests.support.replay_records import completed, refused, result_of

POINTS = limit_curve(
    {
        4: [result_of(completed(0.0)), result_of(completed(0.0), completed(1.0))],
        8: [result_of(refused(0.0))],
    }
)


def figure(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="figure">(.*?)</script>', page)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_curve_has_the_spread_of_goodput_and_a_mark_at_the_recommended_limit() -> None:
    drawn = figure(render_tuning("Tuning", [], POINTS, recommended=4))
    goodput = drawn["data"][0]
    assert goodput["x"] == [4, 8]
    assert goodput["error_y"]["array"][0] > 0
    assert drawn["layout"]["shapes"][0]["x0"] == 4


def test_without_a_recommendation_there_is_no_mark() -> None:
    assert figure(render_tuning("Tuning", [], POINTS, recommended=None))["layout"]["shapes"] == []


def test_findings_are_text() -> None:
    page = render_tuning("<b>Tuning</b>", ["<script>alert(1)</script>"], POINTS, recommended=4)
    assert "<script>alert" not in page
    assert "<b>Tuning" not in page


def test_every_limit_has_a_row() -> None:
    page = render_tuning("Tuning", [], POINTS, recommended=None)
    assert "<td>0.100 to 0.200</td>" in page
    assert "<td>100.0%</td>" in page
