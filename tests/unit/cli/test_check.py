"""`sluice check`: exit codes, the object for scripts, the page for people."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from proxy.cli import check as check_module
from proxy.cli.check import this_machine
from proxy.cli.main import sluice
from proxy.cli.soundness import Machine
from proxy.config import SECRETS, variable_name
from proxy.settings import Settings
from proxy.vllm.inspection import EngineReport, ServedModel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("clean_environment")

VLLM = EngineReport(
    up=True,
    key_refused=False,
    reason="GET /health answers 200",
    version="0.32.0",
    models=(ServedModel("tiny", 2048),),
    kv_cache_tokens=1_048_576,
    max_concurrency=512.0,
)
DOWN = EngineReport(up=False, key_refused=False, reason="connection refused (ECONNREFUSED)")


class Asked:
    """Stands for the engine, and remembers how it was asked."""

    def __init__(self, report: EngineReport) -> None:
        self.report = report
        self.other_reports: dict[str, EngineReport] = {}
        """Of engines that are not like the rest, by URL."""
        self.urls: list[str] = []
        self.ips: list[str] = []
        self.keys: list[str | None] = []

    async def inspect(
        self, root_url: str, api_key: str | None = None, *, ip: str = ""
    ) -> EngineReport:
        self.urls.append(root_url)
        self.ips.append(ip)
        self.keys.append(api_key)
        return self.other_reports.get(root_url, self.report)


class Names:
    """A resolver that knows one name, which is two engines."""

    async def addresses(self, host: str) -> list[str]:
        if host != "both":
            raise OSError("unknown")
        return ["10.0.0.2", "10.0.0.1"]


@pytest.fixture
def engine(
    monkeypatch: pytest.MonkeyPatch,
    clean_environment: Path,  # noqa: ARG001 - comes first, or it would take back what is set here
) -> Asked:
    asked = Asked(VLLM)
    monkeypatch.setattr(check_module, "inspect_engine", asked.inspect)
    monkeypatch.setattr(check_module, "SystemResolver", Names)
    monkeypatch.setattr(check_module, "this_machine", lambda: Machine(None, None))
    monkeypatch.setenv("SLUICE_MAX_NUM_SEQS", "64")
    return asked


def check(*arguments: str) -> Result:
    return CliRunner().invoke(sluice, ["check", *arguments])


def as_json(*arguments: str) -> dict[str, Any]:
    result = check("--json", *arguments)
    read: dict[str, Any] = json.loads(result.stdout)
    return read


# Exit codes --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_sound_set_up_is_0(arguments: tuple[str, ...]) -> None:
    assert check(*arguments).exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_an_unsound_one_is_1(engine: Asked, arguments: tuple[str, ...]) -> None:
    engine.report = DOWN
    assert check(*arguments).exit_code == 1


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_bad_settings_are_2_and_the_engine_is_not_asked(
    engine: Asked, arguments: tuple[str, ...]
) -> None:
    assert check(*arguments, "--max-in-flight", "64").exit_code == 2
    assert engine.urls == []


def test_bad_settings_are_lines_on_standard_error() -> None:
    result = check("--max-in-flight", "0")
    assert result.stdout == ""
    assert (
        result.stderr == "error: SLUICE_MAX_IN_FLIGHT=0: must be a whole number from 1 to 1000000\n"
    )


# How the engine is asked -------------------------------------------------------------------------


def test_the_engine_is_asked_at_its_root_with_our_key(
    engine: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_UPSTREAM_API_KEY", "sk-engine")
    check("--upstream-urls", "http://gpu:9000/engines/a/v1/")
    assert engine.urls == ["http://gpu:9000/engines/a"]
    assert engine.keys == ["sk-engine"]


def test_a_name_with_several_addresses_is_as_many_engines(engine: Asked) -> None:
    seen = as_json("--upstream-urls", "http://both:8000/v1")
    names = ["http://both:8000#10.0.0.1", "http://both:8000#10.0.0.2"]
    assert [one["url"] for one in seen["engines"]] == names
    assert engine.urls == ["http://both:8000"] * 2
    assert engine.ips == ["10.0.0.1", "10.0.0.2"]


def test_a_file_that_names_no_engine_is_unsound(engine: Asked, tmp_path: Path) -> None:
    (tmp_path / "engines").write_text("# none yet\n")
    result = check("--upstreams-file", str(tmp_path / "engines"), "--json")
    assert result.exit_code == 1
    seen = json.loads(result.stdout)
    assert (seen["engines"], seen["binding_limit"], engine.urls) == ([], None, [])
    assert "names no engine" in seen["problems"][0]


def test_an_engine_that_is_not_there_is_told_as_such() -> None:
    result = check("--max-num-seqs", "8", "--upstream-urls", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9 is not up" in " ".join(result.stdout.split())


# For scripts -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_the_object_says_what_is_in_force_what_the_engine_can_and_what_binds() -> None:
    seen = as_json("--max-in-flight", "50")
    assert seen["sound"] is True
    assert seen["problems"] == []
    assert seen["settings"]["SLUICE_MAX_IN_FLIGHT"] == {"value": 50, "source": "flag"}
    assert seen["settings"]["SLUICE_MAX_NUM_SEQS"] == {"value": 64, "source": "env"}
    assert seen["settings"]["SLUICE_TOTAL_TIMEOUT"] == {"value": None, "source": "default"}
    assert len(seen["settings"]) == len(Settings.model_fields)
    assert seen["engines"] == [
        {
            "url": "http://127.0.0.1:8000",
            "up": True,
            "reason": "GET /health answers 200",
            "version": "0.32.0",
            "model": "tiny",
            "max_model_len": 2048,
            "kv_cache_tokens": 1_048_576,
            "max_concurrency": 512.0,
            "binding_limit": seen["binding_limit"],
        }
    ]
    assert seen["binding_limit"]["which"] == "max_in_flight"
    assert "512.0 requests" in seen["binding_limit"]["why"]


def test_what_an_engine_does_not_tell_is_null(engine: Asked) -> None:
    engine.report = DOWN
    (seen,) = as_json()["engines"]
    assert (seen["up"], seen["model"], seen["max_model_len"], seen["kv_cache_tokens"]) == (
        False,
        None,
        None,
        None,
    )


def test_each_of_several_engines_is_asked_and_has_its_own_binding_limit(engine: Asked) -> None:
    small = replace(VLLM, kv_cache_tokens=40_960, max_concurrency=20.0)
    engine.other_reports["http://two:1"] = small
    seen = as_json("--upstream-urls", "http://one:1/v1, http://two:1")
    assert engine.urls == ["http://one:1", "http://two:1"]
    assert [one["url"] for one in seen["engines"]] == ["http://one:1/v1", "http://two:1"]
    assert [one["kv_cache_tokens"] for one in seen["engines"]] == [1_048_576, 40_960]
    whiches = [one["binding_limit"]["which"] for one in seen["engines"]]
    assert whiches == ["max_in_flight", "kv_tokens"]
    assert seen["binding_limit"] == seen["engines"][1]["binding_limit"]


def test_bad_settings_are_an_object_too() -> None:
    seen = as_json()
    assert seen["sound"] is False
    assert seen["problems"][0].startswith("SLUICE_MAX_NUM_SEQS: must be set")
    assert seen["engines"] == []


# For people --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_every_setting_is_on_the_page() -> None:
    page = check().stdout
    for field in Settings.model_fields:
        assert f"SLUICE_{field.upper()}" in page


def test_every_engine_is_on_the_page_with_what_binds_first_in_it(engine: Asked) -> None:
    engine.other_reports["http://two:1"] = DOWN
    result = check("--upstream-urls", "http://one:1,http://two:1")
    page = result.stdout
    assert "http://one:1: up" in page
    assert "http://two:1: NOT up" in page
    assert page.count("binds first") == 2
    assert "http://two:1: the engine is not up" in " ".join(page.split())
    assert result.exit_code == 1


def test_the_verdict_is_the_last_line(engine: Asked) -> None:
    assert check().stdout.splitlines()[-1] == "sound"
    assert check("--upstream", "sim").exit_code == 2  # no flag of this command
    engine.report = DOWN
    assert check().stdout.splitlines()[-1] == "NOT sound"


@pytest.mark.usefixtures("engine")
def test_warnings_are_counted_beside_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_DRAIN_TIMEOUT", "0")
    assert check().stdout.splitlines()[-1] == "sound, 1 warning"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_no_page_shows_a_key(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.setenv("SLUICE_API_KEYS", "team:canary-client-key")
    monkeypatch.setenv("SLUICE_UPSTREAM_API_KEY", "canary-engine-key")
    monkeypatch.setenv("SLUICE_ADMIN_TOKEN", "canary-of-operators")
    monkeypatch.setenv("SLUICE_REDIS_URL", "redis://canary-user:canary-password@store:6379/0")
    result = check(*arguments)
    assert result.exit_code == 0
    assert "canary" not in result.output
    assert "***" in result.output


BAD_SECRETS = {
    "SLUICE_API_KEYS": "team:canary key",
    "SLUICE_UPSTREAM_API_KEY": "canary key",
    "SLUICE_ADMIN_TOKEN": "canary",
    "SLUICE_REDIS_URL": "redis://:canary/canary@store",
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("arguments", [(), ("--json",)])
@pytest.mark.parametrize("variable", sorted(SECRETS))
def test_a_secret_that_is_wrong_is_not_quoted(
    monkeypatch: pytest.MonkeyPatch, variable: str, arguments: tuple[str, ...]
) -> None:
    name = variable_name(variable)
    monkeypatch.setenv(name, BAD_SECRETS[name])
    result = check(*arguments)
    assert result.exit_code == 2
    assert name in result.output
    assert "canary" not in result.output


@pytest.mark.usefixtures("engine")
def test_a_value_that_looks_like_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_EXPOSE", "GET /[bold]x[/bold]")
    assert "GET /[bold]x[/bold]" in check().stdout


# The machine -------------------------------------------------------------------------------------


def test_the_machine_is_judged_by_what_serve_could_raise_its_limit_to() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = None if hard == resource.RLIM_INFINITY else hard
    assert this_machine().max_open_files == expected


@pytest.mark.parametrize(("content", "known"), [("1048576\n", True), ("max\n", False)])
def test_a_containers_memory_counts_when_it_is_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, known: bool
) -> None:
    (tmp_path / "memory.max").write_text(content)
    monkeypatch.setattr(check_module, "_CONTAINER_MEMORY", tmp_path / "memory.max")
    assert (this_machine().memory_bytes == 1_048_576) == known
