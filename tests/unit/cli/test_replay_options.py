"""What the command line says, as the replay understands it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from proxy.cli.replay_options import (
    asking_of,
    limits_of,
    load_options,
    objective_of,
    patience_of,
    schedule_of,
)
from proxy.replay.client.requester import Patience
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.request_times import Objective
from proxy.replay.schedule import LengthLimits
from proxy.replay.synthetic.distribution import Fixed

if TYPE_CHECKING:
    from pathlib import Path


def _told(*arguments: str) -> dict[str, Any]:
    heard: dict[str, Any] = {}

    @click.command()
    @load_options
    def command(**told: Any) -> None:  # noqa: ANN401 - options of many types
        heard.update(told)

    ran = CliRunner(env={"OPENAI_API_KEY": "sk-env"}).invoke(command, arguments)
    assert ran.exit_code == 0, ran.output
    return heard


def _trace(path: Path) -> Path:
    file = path / "b.csv"
    rows = [f"{second},m,{100 + second},7,0,API log" for second in range(100)]
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    file.write_text("\n".join([head, *rows, ""]))
    return file


def test_a_part_of_a_trace_at_another_speed(tmp_path: Path) -> None:
    told = _told("--from", "10s", "--speed", "2", "--duration", "5s")
    source, schedule = schedule_of(_trace(tmp_path), told)
    assert source == "burstgpt trace b.csv"
    assert [a.at_s for a in schedule.arrivals] == [i / 2 for i in range(10)]
    assert schedule.arrivals[0].prompt_tokens == 110


def test_a_made_up_load_with_the_lengths_of_a_trace(tmp_path: Path) -> None:
    told = _told("--rate", "50", "--duration", "2s", "--lengths", str(_trace(tmp_path)))
    source, schedule = schedule_of(None, told)
    assert source == "poisson:50, lengths of b.csv"
    assert {a.output_tokens for a in schedule.arrivals} == {7}
    assert schedule == schedule_of(None, told)[1]


def test_a_limit_of_the_rate_thins_it() -> None:
    told = _told("--arrivals", "constant:100", "--duration", "10s", "--limit-rate", "10")
    assert len(schedule_of(None, told)[1].arrivals) == pytest.approx(100, abs=30)


def test_clients_and_what_is_good() -> None:
    told = _told("--client", "vercel-ai", "--timeout", "1m", "--abandon-after", "30s")
    assert patience_of(told) == Patience(PROFILES["vercel-ai"], 60.0, 2, Fixed(30.0))
    assert patience_of(_told("--client", "none")).max_retries == 0
    assert objective_of(_told("--slo-ttft", "500ms")) == Objective(ttft_s=0.5)
    assert limits_of(_told("--max-prompt-tokens", "9")) == LengthLimits(prompt=9)


def test_headers_are_an_sdks_with_the_key_and_those_that_are_given() -> None:
    asking = asking_of("http://gw:8080/v1", _told("--header", "X-A: b", "--header", "Accept: */*"))
    headers = dict(asking.headers)
    assert headers[b"host"] == b"gw:8080"
    assert headers[b"authorization"] == b"Bearer sk-env"
    assert (headers[b"X-A"], headers[b"Accept"], b"accept" in headers) == (b"b", b"*/*", False)


def test_a_bad_url_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="must start with http"):
        asking_of("gw:8080", _told())
