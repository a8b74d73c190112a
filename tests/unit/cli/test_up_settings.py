"""From an engine's arguments and what is set to the command and the settings of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from proxy.cli.up_settings import UpPlan, engine_environment, plan_up, read_arguments
from proxy.config import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("clean_environment")


def plan(text: str, environment: dict[str, str] | None = None, **overrides: object) -> UpPlan:
    arguments = read_arguments(tuple(text.split()))
    return plan_up(("vllm", "serve"), arguments, overrides, 9001, environment or {})


def derived(found: UpPlan) -> dict[str, str]:
    return {one.field: one.value for one in found.derived}


def test_the_limit_follows_from_the_arguments() -> None:
    found = plan("org/m --max-num-seqs 64")
    assert found.command_line == ("vllm serve org/m --max-num-seqs 64 --host 127.0.0.1 --port 9001")
    assert derived(found) == {
        "upstream_urls": "http://127.0.0.1:9001",
        "max_kv_tokens": "auto",
        "max_num_seqs": "64",
    }
    assert found.settings.max_in_flight == 57
    assert found.settings.upstream_urls == ("http://127.0.0.1:9001",)
    assert found.warnings == ()


def test_where_nobody_says_how_many_both_are_told_the_same() -> None:
    found = plan("org/m")
    assert "--max-num-seqs 256" in found.command_line
    assert found.settings.max_num_seqs == 256


def test_the_setting_tells_the_engine_where_the_arguments_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_MAX_NUM_SEQS", "32")
    found = plan("org/m")
    assert "--max-num-seqs 32" in found.command_line
    assert "max_num_seqs" not in derived(found)
    assert found.warnings == ()


def test_a_limit_that_is_set_has_room_in_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MAX_IN_FLIGHT", "400")
    found = plan("org/m")
    assert "--max-num-seqs 401" in found.command_line
    assert found.settings.max_in_flight == 400


def test_a_limit_that_is_set_and_not_below_the_engines_stops_the_start() -> None:
    with pytest.raises(SettingsError, match="must be below SLUICE_MAX_NUM_SEQS=64"):
        plan("org/m --max-num-seqs 64", max_in_flight=64)


def test_a_setting_beats_the_arguments_and_a_warning_says_that_it_does_not_fit() -> None:
    found = plan("org/m --max-num-seqs 64", max_num_seqs=512)
    assert found.settings.max_in_flight == 460
    assert "--max-num-seqs 64" in found.command_line
    told, pile_up = found.warnings
    assert "SLUICE_MAX_NUM_SEQS=512 is set" in told
    assert "460 seats are not below" in pile_up


def test_clients_go_on_asking_at_the_engines_address() -> None:
    found = plan("org/m --host 0.0.0.0 --port 8000")
    assert (found.settings.host, found.settings.port) == ("0.0.0.0", 8000)
    assert found.command_line.endswith("--host 127.0.0.1 --port 9001")
    assert "--port 8000" not in found.command_line


def test_unless_a_setting_says_where_they_ask() -> None:
    found = plan("org/m --port 8000", port=8080)
    assert found.settings.port == 8080
    (warning,) = found.warnings
    assert "--port 8000 is not used: SLUICE_PORT is set to 8080" in warning


def test_each_data_parallel_rank_runs_as_many() -> None:
    found = plan("org/m --max-num-seqs 64 -dp 4")
    assert (found.engines, found.engine_sequences, found.settings.max_num_seqs) == (4, 64, 256)
    spread = plan("org/m -dp 4", max_num_seqs=100)
    assert "--max-num-seqs 25" in spread.command_line
    assert spread.warnings == ()


def test_a_file_of_arguments_counts_too(tmp_path: Path) -> None:
    file = tmp_path / "vllm.yaml"
    file.write_text("max-num-seqs: 16\nport: 8001\n")
    found = plan(f"org/m --config {file}")
    assert found.settings.max_num_seqs == 16
    assert found.settings.port == 8001
    assert "--max-num-seqs" not in found.command_line


def test_a_file_that_cannot_be_read_is_one_line() -> None:
    with pytest.raises(click.UsageError, match=r"--config gone.yaml: cannot be read"):
        plan("org/m --config gone.yaml")


@pytest.mark.parametrize("text", ["m --uds s", "m --max-num-seqs none", "m -dp x"])
def test_arguments_that_cannot_be_served_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError):
        plan(text)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("SLUICE_UPSTREAM_URLS", "http://gpu:8000"), ("SLUICE_UPSTREAMS_FILE", "engines")],
)
def test_engines_that_are_named_are_somebody_elses(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(click.UsageError, match=f"{variable} names engines"):
        plan("org/m")


def test_the_engines_key_stays_between_client_and_engine() -> None:
    assert plan("org/m --api-key sk-engine").settings.upstream_api_key is None


@pytest.mark.parametrize("text", ["m --api-key sk-engine", "m"])
def test_unless_clients_show_keys_of_the_gateway(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_API_KEYS", "sk-client")
    found = plan(text, environment={"VLLM_API_KEY": "sk-engine"})
    assert found.settings.upstream_api_key is not None
    assert found.settings.upstream_api_key.get_secret_value() == "sk-engine"
    assert "sk-engine" not in " ".join(one.shown for one in found.derived) + found.command_line


def test_the_engine_sees_none_of_our_settings() -> None:
    seen = engine_environment({"SLUICE_API_KEYS": "sk-client", "HOME": "h"})
    assert seen == {"HOME": "h", "PYTHONUNBUFFERED": "1"}
