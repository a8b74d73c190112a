"""`sluice tune`: a curve and a recommendation, from gateways and replays that are stand-ins."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from proxy.cli import tune as module
from proxy.cli.beside import simulated_engine_beside
from tests.support.replay_records import RUN, completed, refused, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from proxy.replay.result import ReplayResult

    Replay = Callable[[int], ReplayResult]
    RunTune = Callable[..., Result]

ENGINE = "http://engine:8000"
pytestmark = pytest.mark.usefixtures("clean_environment")


def knee_at_16(limit: int) -> ReplayResult:
    good = min(limit, 16, max(0, 80 - limit))
    return result_of(*[completed(0.0)] * good, *[refused(0.0)] * (80 - good), slo_ttft_s=1.0)


@pytest.fixture
def run_tune(monkeypatch: pytest.MonkeyPatch) -> RunTune:
    def run(replay: Replay, *arguments: str) -> Result:
        @contextmanager
        def gateway(url: str, limit: int) -> Iterator[str]:
            assert url == ENGINE
            yield str(limit)

        def played(url: str, options: Sequence[str]) -> ReplayResult:
            assert list(options) == ["--rate", "10"]
            return replay(int(url))

        monkeypatch.setattr(module, "gateway_with", gateway)
        monkeypatch.setattr(module, "replay_once", played)
        command = [ENGINE, *arguments, "--", "--rate", "10"]
        return CliRunner(env={"COLUMNS": "160"}).invoke(module.tune, command)

    return run


def test_the_knee_is_recommended(run_tune: RunTune) -> None:
    result = run_tune(knee_at_16, "--between", "2", "64", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert 15 <= told["recommended"] <= 18
    assert [point["limit"] for point in told["limits"]] == sorted(
        {point["limit"] for point in told["limits"]}
    )


def test_a_table_shows_the_curve(run_tune: RunTune) -> None:
    result = run_tune(knee_at_16, "--between", "2", "64")
    assert "Recommended: SLUICE_MAX_IN_FLIGHT=1" in result.stdout
    assert "█" * 16 in result.stdout
    assert "at most 24 replays" in result.stderr


@pytest.mark.parametrize(
    ("replay", "said"),
    [
        (lambda limit: knee_at_16(min(limit, 16)), "16 is the largest limit that was allowed"),
        (lambda _limit: knee_at_16(16), "4 is the smallest limit that was allowed"),
        (lambda _limit: result_of(completed(0.0)), "There was no objective"),
        (lambda _limit: knee_at_16(16), "As good within noise: "),
    ],
)
def test_what_is_to_be_doubted_is_said(run_tune: RunTune, replay: Replay, said: str) -> None:
    assert said in run_tune(replay, "--between", "4", "16").stdout


def test_a_cliff_beside_the_recommended_limit_is_pointed_out(run_tune: RunTune) -> None:
    def cliff_above_16(limit: int) -> ReplayResult:
        return knee_at_16(limit if limit <= 16 else 1)

    stdout = run_tune(cliff_above_16, "--between", "2", "64").stdout
    assert "It is close to a cliff: " in stdout
    assert "keeps a margin and gives up " in stdout
    assert "cliff" not in run_tune(knee_at_16, "--between", "2", "32").stdout


def test_nothing_good_is_an_exit_code(run_tune: RunTune) -> None:
    result = run_tune(lambda _limit: result_of(refused(0.0)), "--between", "4", "16")
    assert result.exit_code == 3
    assert "No answer was good at any limit" in result.stdout


def test_who_breaks_it_off_gets_the_curve_so_far(run_tune: RunTune) -> None:
    played: list[int] = []

    def interrupted(limit: int) -> ReplayResult:
        if len(played) == 3:
            raise KeyboardInterrupt
        played.append(limit)
        return knee_at_16(limit)

    result = run_tune(interrupted, "--between", "2", "64", "--json")
    assert result.exit_code == 130
    told = json.loads(result.stdout)
    assert len(told["limits"]) == 3
    assert told["recommended"] is None
    assert told["broken_off"]


def test_a_trial_that_fails_does_not_cost_the_curve_so_far(run_tune: RunTune) -> None:
    played: list[int] = []

    def failing(limit: int) -> ReplayResult:
        if len(played) == 2:
            raise click.ClickException("the engine is gone")
        played.append(limit)
        return knee_at_16(limit)

    result = run_tune(failing, "--between", "2", "64", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (len(told["limits"]), told["recommended"]) == (2, None)
    assert "the engine is gone" in told["findings"][0]


def test_a_first_trial_that_fails_is_a_line(run_tune: RunTune) -> None:
    def failing(_limit: int) -> ReplayResult:
        raise click.ClickException("no engine")

    result = run_tune(failing, "--between", "2", "64")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith("Error: no engine\n")


def test_a_trial_whose_generator_was_late_is_told_and_does_not_decide(run_tune: RunTune) -> None:
    late = msgspec.structs.replace(RUN, generator={"loop_lag_p99_s": 0.4})

    def late_at_64(limit: int) -> ReplayResult:
        result = knee_at_16(limit)
        return msgspec.structs.replace(result, run=late) if limit == 64 else result

    result = run_tune(late_at_64, "--between", "2", "64", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["recommended"] is None
    assert told["late_trials"] == [{"limit": 64, "late_s": 0.4}] * 3
    assert 64 not in {point["limit"] for point in told["limits"]}
    assert "limit 64: does not count, the load generator was late by 0.40 s" in result.stderr


def test_bad_options_for_the_replays_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def started(*_arguments: object) -> None:
        pytest.fail("a gateway was started")

    monkeypatch.setattr(module, "gateway_with", started)
    command = [ENGINE, "--between", "2", "64", "--", "--rate", "10", "--duration", "soon"]
    result = CliRunner().invoke(module.tune, command)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: options of sluice replay: ")
    assert result.stderr.count("\n") == 1


def test_the_curve_is_written_as_a_page(run_tune: RunTune, tmp_path: Path) -> None:
    page = tmp_path / "curve.html"
    run_tune(knee_at_16, "--between", "2", "64", "--html", str(page))
    assert "Recommended: SLUICE_MAX_IN_FLIGHT" in page.read_text()


def test_the_size_of_the_engine_gives_the_range(
    run_tune: RunTune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_MAX_NUM_SEQS", "64")
    told = json.loads(run_tune(knee_at_16, "--json").stdout)
    limits = [point["limit"] for point in told["limits"]]
    assert (limits[0], limits[-1]) == (4, 63)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say which limits to try with --between LOW HIGH"),
        (("--between", "9", "3"), "9 is above 3"),
        (("--between", "0", "3"), "0 is not in the range"),
        (("--between", "2", "64", "--max-trials", "4"), "4 trials do not reach for the 5 limits"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused_before_anything_starts(
    run_tune: RunTune, arguments: Sequence[str], said: str
) -> None:
    result = run_tune(knee_at_16, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--duration", "60s"], "24 replays one after the other: 26 min"),
        (["--duration=10s"], "other: 6 min"),
        ([], "other: 26 min"),
    ],
)
def test_the_time_it_takes_is_said_beforehand(
    monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    def nothing(_url: str, _options: Sequence[str]) -> ReplayResult:
        raise KeyboardInterrupt

    @contextmanager
    def gateway(url: str, _limit: int) -> Iterator[str]:
        yield url

    monkeypatch.setattr(module, "replay_once", nothing)
    monkeypatch.setattr(module, "gateway_with", gateway)
    command = [ENGINE, "--between", "2", "64", "--", "--rate", "9", *options]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(module.tune, command)
    assert said in result.stderr


def test_real_replays_are_played_through_real_gateways() -> None:
    load = ["--rate", "30", "--duration", "1s", "--prompt-tokens", "20", "--output-tokens", "4"]
    with simulated_engine_beside(8, quiet=True) as engine:
        limits = ["--between", "4", "4", "--repeats", "1", "--max-trials", "3"]
        result = CliRunner().invoke(module.tune, [engine, *limits, "--json", "--", *load])
    told = json.loads(result.stdout)
    if told["late_trials"]:  # a machine that has no time for us
        assert len(told["late_trials"]) <= 3
    else:
        assert (result.exit_code, told["recommended"]) == (0, 4)
        assert told["limits"][0]["goodput_per_s"] > 10


def test_a_page_that_could_not_be_written_is_refused_before_the_first_replay() -> None:
    command = ["http://engine", "--between", "2", "4", "--html", "none/curve.html"]
    result = CliRunner().invoke(module.tune, command)
    assert (result.exit_code, result.stderr) == (
        2,
        "error: none/curve.html: No such file or directory\n",
    )
