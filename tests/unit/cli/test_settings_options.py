"""Flags made from settings."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from proxy.cli.check import check
from proxy.cli.serve import serve
from proxy.cli.settings_options import COMMON_SETTINGS, settings_options

FIELDS = (
    *("port", "shadow", "upstream_client", "queue_timeout", "trace_file", "overload_status"),
    *("max_kv_tokens", "tenant_max_in_flight", "tenant_weights"),
)


def run(*arguments: str) -> tuple[dict[str, Any], Result]:
    seen: dict[str, Any] = {}

    @click.command()
    @settings_options(*FIELDS)
    @click.option("--other")
    def command(other: str | None, overrides: dict[str, Any]) -> None:
        seen.update(overrides, other=other)

    return seen, CliRunner().invoke(command, list(arguments))


def test_only_flags_that_were_given_are_overrides() -> None:
    seen, _ = run("--port", "0", "--other", "x")
    assert seen == {"port": 0, "other": "x"}


def test_each_kind_of_setting_has_its_kind_of_flag() -> None:
    seen, _ = run(
        *("--shadow", "--upstream-client", "HTTPX", "--queue-timeout", "0.5"),
        *("--trace-file", "t.jsonl", "--overload-status", "429"),
    )
    assert seen == {
        "shadow": True,
        "upstream_client": "httpx",
        "queue_timeout": 0.5,
        "trace_file": "t.jsonl",
        "overload_status": "429",
        "other": None,
    }


@pytest.mark.parametrize("given", ["auto", "50000"])
def test_a_number_or_a_word_is_left_for_the_settings_to_judge(given: str) -> None:
    seen, _ = run("--max-kv-tokens", given, "--tenant-weights", "a:1")
    assert seen == {"max_kv_tokens": given, "tenant_weights": "a:1", "other": None}


def test_a_number_that_may_be_unset_is_a_number() -> None:
    seen, _ = run("--tenant-max-in-flight", "4")
    assert seen == {"tenant_max_in_flight": 4, "other": None}


def test_a_switch_can_be_switched_off() -> None:
    seen, _ = run("--no-shadow")
    assert seen["shadow"] is False


@pytest.mark.parametrize("arguments", [("--port", "x"), ("--upstream-client", "curl")])
def test_a_flag_of_the_wrong_kind_is_refused(arguments: tuple[str, ...]) -> None:
    _, result = run(*arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.stderr


def test_help_names_variable_and_default() -> None:
    _, result = run("--help")
    text = " ".join(result.output.split())
    assert "Port of the public listener; 0 = any free one. [SLUICE_PORT; default 8080]" in text
    assert "--queue-timeout SECONDS" in text


@pytest.mark.parametrize("field", ["api_keys", "upstream_api_key"])
def test_a_secret_never_becomes_a_flag(field: str) -> None:
    with pytest.raises(ValueError, match="process list"):
        settings_options(field)


@pytest.mark.parametrize("command", [serve, check])
def test_serve_and_check_take_the_same_flags(command: click.Command) -> None:
    assert {param.name for param in command.params} >= set(COMMON_SETTINGS)
    assert {"headroom", "max_prefill_tokens", "max_kv_tokens", "adaptive"} <= set(COMMON_SETTINGS)
