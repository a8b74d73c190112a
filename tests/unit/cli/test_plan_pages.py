from __future__ import annotations

import pytest

from proxy.cli.plan_pages import print_plan, print_running
from proxy.vllm.launch_plan.plan import make_plan
from proxy.vllm.launch_plan.remedies import remedies
from proxy.vllm.launch_plan.running_engine import RunningEngine, judge_fit
from tests.support.plan_requests import request


def test_the_answer_stands_last(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(make_plan(request()), (), explain=False, spare=0)
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith("fits: ")


def test_cards_that_are_left_over_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(make_plan(request()), (), explain=False, spare=3)
    assert "3 cards are left over" in capsys.readouterr().out


def test_what_nothing_helps_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    plan = make_plan(request("llama-3-70b", "1GiB"))
    print_plan(plan, remedies(plan), explain=True, spare=0)
    out = capsys.readouterr().out
    assert "no change that was tried" in out
    assert "does not fit" in out


@pytest.mark.parametrize(
    ("limit", "said"), [(7, "=7 fits"), (8, "=8 does NOT fit"), (None, "cannot be said")]
)
def test_the_verdict_on_a_running_engine_stands_last(
    capsys: pytest.CaptureFixture[str], limit: int | None, said: str
) -> None:
    engine = RunningEngine(source="x", kv_tokens=100_000, max_num_seqs=8, max_model_len=100)
    print_running(engine, judge_fit(engine, limit, 0.9, None))
    assert said in capsys.readouterr().out.splitlines()[-1]
