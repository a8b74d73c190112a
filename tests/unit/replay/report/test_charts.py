"""One time axis for all charts, and nothing in them that a browser would take for markup."""

from __future__ import annotations

import json
from itertools import pairwise

from proxy.replay.recording_view import Curve, RecordingView
from proxy.replay.report.charts import figure_of
from tests.support.replay_records import abandoned, completed, made_up_run, refused, result_of

RESULT = result_of(completed(0.5), refused(1.5, tries=2), abandoned(2.0, after_s=3.5))


def recording() -> RecordingView:
    return RecordingView(
        used_gib={0: Curve([0.0, 1.0], [70.0, 71.0]), 1: Curve([0.0], [60.0])},
        kv_cache_usage=Curve([0.0, 1.0], [0.1, 0.9]),
    )


def test_all_charts_share_one_time_axis() -> None:
    figure = figure_of(RESULT, recording())
    assert {trace["xaxis"] for trace in figure["data"]} == {"x"}
    assert [name for name in figure["layout"] if name.startswith("xaxis")] == ["xaxis"]
    assert figure["layout"]["xaxis"]["anchor"] == "y7"


def test_charts_do_not_overlap_and_fill_the_height() -> None:
    layout = figure_of(RESULT, recording())["layout"]
    domains = [layout[name]["domain"] for name in layout if name.startswith("yaxis")]
    assert len(domains) == 7
    assert domains[0][1] > 0.95
    assert abs(domains[-1][0]) < 1e-9
    assert all(upper[0] > lower[1] for upper, lower in pairwise(domains))


def test_what_was_not_recorded_has_no_chart() -> None:
    bare, kv_only = figure_of(RESULT, None), RecordingView(kv_cache_usage=Curve([0.0], [0.5]))
    assert "yaxis6" not in bare["layout"]
    assert "yaxis6" in (with_kv := figure_of(RESULT, kv_only)["layout"])
    assert "yaxis7" not in with_kv


def test_every_reason_has_its_bars_and_retries_their_line() -> None:
    traces = {trace["name"]: trace for trace in figure_of(RESULT, None)["data"]}
    assert traces["queue_full"]["y"] == [0, 1, 1, 0, 0, 0]
    assert traces["retries"]["y"] == [0, 0, 1, 0, 0, 0]


def test_a_gap_in_the_answers_stays_a_gap() -> None:
    traces = {trace["name"]: trace for trace in figure_of(RESULT, None)["data"]}
    assert traces["first token p50"]["y"][1:] == [None] * 5
    assert traces["first token p50"]["connectgaps"] is False


def test_a_reason_from_outside_is_text_and_short() -> None:
    hostile = "<a href='https://example.org'>x</a>" + "y" * 500
    figure = figure_of(result_of(refused(0.0, hostile)), None)
    names = [trace["name"] for trace in figure["data"] if trace["type"] == "bar"]
    assert names[0].startswith("&lt;a href=")
    assert len(names[0]) < 100


def test_a_long_run_is_drawn_with_means_a_browser_can_bear() -> None:
    result = result_of(completed(0.0), abandoned(0.0, after_s=5_399.5), completed(5_000.0))
    traces = {trace["name"]: trace for trace in figure_of(result, None)["data"]}
    offered = traces["offered"]
    assert len(offered["x"]) == len(offered["y"]) == 1800
    assert offered["x"][:2] == [0, 3]
    assert offered["y"][0] == round(2 / 3, 4)
    assert traces["first token p50"]["y"][0] == 0.5
    assert traces["first token p50"]["y"][1] is None


def test_the_figure_is_plain_json() -> None:
    figure = figure_of(made_up_run(seed=1), recording())
    assert json.loads(json.dumps(figure, allow_nan=False))["layout"]["height"] > 1000
