"""One file that asks no network for anything, and shows what comes from outside as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser

import msgspec
import pytest

from proxy.replay.report.page import NoPlotlyError, render_report
from tests.support.replay_records import RUN, completed, made_up_run, refused, result_of

HOSTILE = "</script><script>alert(1)</script>{{boot}}<img src=x onerror=alert(2)>"


class Elements(HTMLParser):
    """Tags with their attributes, what stands in scripts, and the text of the rest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data


@pytest.fixture(scope="module")
def page() -> Elements:
    run = msgspec.structs.replace(RUN, command=f"sluice replay {HOSTILE}", notes=[HOSTILE])
    records = [completed(0.5), refused(1.0, HOSTILE)]
    return Elements(render_report(result_of(*records, run=run, source=HOSTILE, slo_ttft_s=2.0)))


def policy(page: Elements) -> str:
    return next(
        str(attributes["content"])
        for tag, attributes in page.found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )


def test_nothing_is_loaded_from_anywhere(page: Elements) -> None:
    loading = {"src", "href", "srcset", "data", "action", "poster"}
    assert [tag for tag, attributes in page.found if loading & attributes.keys()] == []
    assert policy(page).startswith("default-src 'none';")


def test_what_comes_from_outside_is_no_markup(page: Elements) -> None:
    assert "img" not in [tag for tag, _ in page.found]
    assert len(page.scripts) == 3
    assert page.text.count(HOSTILE) >= 4


def test_only_the_scripts_it_brings_may_run(page: Elements) -> None:
    _, plotly, boot = page.scripts
    for script in (plotly, boot):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy(page)
    assert "unsafe" not in re.sub(r"style-src [^;]*", "", policy(page))


def test_the_figure_is_data_that_the_script_can_read(page: Elements) -> None:
    figure = json.loads(page.scripts[0])
    assert {"data", "layout"} == figure.keys()


def test_tables_hold_what_the_charts_show(page: Elements) -> None:
    for text in ("time to first token", "0.500", "503", "rate_per_s", "its first token"):
        assert text in page.text


def test_light_dark_and_paper_are_thought_of() -> None:
    rendered = render_report(result_of(completed(0.0)))
    assert "prefers-color-scheme: dark" in rendered
    assert "@media print" in rendered


def test_a_run_that_was_broken_off_says_so() -> None:
    run = msgspec.structs.replace(RUN, partial=True, elapsed_s=7.0)
    assert "Broken off after 7 s" in render_report(result_of(completed(0.0), run=run))


def test_a_generator_that_was_late_is_pointed_out() -> None:
    late = msgspec.structs.replace(completed_late := result_of(completed(0.0)))
    assert "generator itself was late" not in render_report(completed_late)
    lag = msgspec.structs.replace(late.generator_lag_s, p99=0.5)
    late = msgspec.structs.replace(late, generator_lag_s=lag)
    assert "began 0.50 s or more after its time" in render_report(late)


def test_an_empty_run_has_a_report() -> None:
    assert "–" in render_report(result_of())


def test_the_page_grows_by_little_beside_its_script() -> None:
    small, large = result_of(completed(0.0)), made_up_run(seed=1, duration_s=120.0)
    assert len(render_report(large)) - len(render_report(small)) < 100_000


def test_without_plotly_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(NoPlotlyError, match=r"^.*pip install 'vllm-sluice\[tools\]'$"):
        render_report(result_of())
