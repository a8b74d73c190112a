"""Loading: what beats what, and one line for each thing that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.config import (
    SettingsError,
    load_settings,
    setting_default,
    settings_table,
    variable_name,
)
from proxy.settings import Settings

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def env(
    monkeypatch: pytest.MonkeyPatch,
    clean_environment: Path,  # noqa: ARG001 - comes first, or it would take back what is set here
) -> pytest.MonkeyPatch:
    monkeypatch.setenv("SLUICE_MAX_NUM_SEQS", "64")
    return monkeypatch


def problems(**flags: object) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags)
    return caught.value.problems


# What beats what ---------------------------------------------------------------------------------


def test_a_flag_beats_the_environment_which_beats_the_file(env: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("SLUICE_PORT=1\nSLUICE_ADMIN_PORT=2\nSLUICE_QUEUE_TIMEOUT=3\n")
    env.setenv("SLUICE_PORT", "10")
    env.setenv("SLUICE_ADMIN_PORT", "20")
    settings = load_settings({"port": 100})
    assert (settings.port, settings.admin_port, settings.queue_timeout) == (100, 20, 3)
    fields = ("port", "admin_port", "queue_timeout", "host")
    assert [settings.source_of(field) for field in fields] == ["flag", "env", ".env", "default"]


def test_an_empty_value_is_an_unset_one(env: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("SLUICE_PORT=\nSLUICE_QUEUE_TIMEOUT=3\n")
    for name in ("PORT", "UPSTREAM_URLS", "TOTAL_TIMEOUT", "EXPOSE", "API_KEYS", "QUEUE_TIMEOUT"):
        env.setenv(f"SLUICE_{name}", "")
    settings = load_settings({"max_in_flight": None, "log_level": ""})
    assert settings.port == 8080
    assert settings.upstream_urls == ("http://127.0.0.1:8000",)
    assert settings.total_timeout is None
    assert settings.client_keys == {}
    assert settings.max_in_flight == 57
    assert settings.queue_timeout == 3
    assert settings.source_of("port") == "default"
    assert settings.source_of("queue_timeout") == ".env"


def test_names_without_our_prefix_mean_nothing(env: pytest.MonkeyPatch) -> None:
    before = load_settings()
    for name in ("HOST", "PORT", "VERSION", "DEBUG", "TIMEOUT", "MODEL", "WORKERS", "LOG_LEVEL"):
        env.setenv(name, "tcp://10.0.0.1:8000")
    Path(".env").write_text("PORT=1\nDEBUG=1\n")
    assert load_settings() == before


def test_a_kubernetes_service_of_our_name_changes_nothing(env: pytest.MonkeyPatch) -> None:
    env.setenv("SLUICE_PORT", "tcp://10.0.0.1:8080")
    env.setenv("SLUICE_SERVICE_HOST", "10.0.0.1")
    env.setenv("SLUICE_PORT_8080_TCP_ADDR", "10.0.0.1")
    settings = load_settings()
    assert settings.port == 8080
    assert settings.source_of("port") == "default"


# What stops the start ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("PORT", "70000", "SLUICE_PORT=70000: must be a whole number from 0 to 65535"),
        (
            "QUEUE_TIMEOUT",
            "nan",
            "SLUICE_QUEUE_TIMEOUT=nan: must be a number of seconds from 0 to 86400",
        ),
        ("OVERLOAD_STATUS", "500", "SLUICE_OVERLOAD_STATUS=500: must be 503 or 429"),
        ("HEADROOM", "1", "SLUICE_HEADROOM=1: must be a number above 0 and below 1"),
        ("SHADOW", "maybe", "SLUICE_SHADOW=maybe: must be true or false"),
        (
            "MAX_IN_FLIGHT",
            "64",
            (
                "SLUICE_MAX_IN_FLIGHT=64: must be below SLUICE_MAX_NUM_SEQS=64, "
                "or requests pile up in the engine's own queue"
            ),
        ),
        (
            "WORKERS",
            "4",
            (
                "SLUICE_WORKERS=4: needs SLUICE_REDIS_URL, through which several processes "
                "hold one limit; without it each would have a limit of its own"
            ),
        ),
        (
            "EXPOSE",
            "GET",
            "SLUICE_EXPOSE=GET: 'GET' must be a method and a path, such as 'GET /health'",
        ),
        (
            "MAX_PREFILL_TOKENS",
            "8k",
            "SLUICE_MAX_PREFILL_TOKENS=8k: must be a whole number from 1 to 1000000000",
        ),
        (
            "MAX_KV_TOKENS",
            "all",
            "SLUICE_MAX_KV_TOKENS=all: must be a whole number from 1 to 1000000000, or auto",
        ),
        ("ADAPTIVE", "maybe", "SLUICE_ADAPTIVE=maybe: must be true or false"),
        ("RETRY_BUDGET", "20", "SLUICE_RETRY_BUDGET=20: must be a number from 0 to 1"),
        (
            "PRIORITY_HEADER",
            "my header",
            (
                "SLUICE_PRIORITY_HEADER=my header: must be a header name: "
                "at most 64 letters, digits and dashes, no blanks"
            ),
        ),
        (
            "TENANT_HEADER",
            "Authorization",
            (
                "SLUICE_TENANT_HEADER=Authorization: must be a header of its own; "
                "this one already has a meaning here"
            ),
        ),
        (
            "TENANT_HEADER",
            "x-sluice-priority",
            (
                "SLUICE_TENANT_HEADER=x-sluice-priority: must differ from "
                "SLUICE_PRIORITY_HEADER=x-sluice-priority, one header cannot say both"
            ),
        ),
        (
            "TENANT_MAX_IN_FLIGHT",
            "58",
            (
                "SLUICE_TENANT_MAX_IN_FLIGHT=58: must be at most SLUICE_MAX_IN_FLIGHT=57, "
                "or it never holds anybody back"
            ),
        ),
        (
            "TENANT_WEIGHTS",
            "gold:0",
            ("SLUICE_TENANT_WEIGHTS=gold:0: 'gold:0' must end in a weight from 0.001 to 1000"),
        ),
        (
            "TENANT_WEIGHTS",
            "gold:3",
            (
                "SLUICE_TENANT_WEIGHTS: 'gold' is nobody's name while neither SLUICE_API_KEYS "
                "nor SLUICE_TENANT_HEADER, one of which must be set, tells tenants apart"
            ),
        ),
        ("PROT", "1", "SLUICE_PROT: no such setting; did you mean SLUICE_PORT?"),
        (
            "CLUSTER",
            "two words",
            (
                "SLUICE_CLUSTER=two words: must be 1 to 64 letters, digits, dots, dashes or "
                "underscores"
            ),
        ),
    ],
)
def test_a_bad_value_is_one_line_with_variable_value_and_rule(
    env: pytest.MonkeyPatch, variable: str, value: str, line: str
) -> None:
    env.setenv(f"SLUICE_{variable}", value)
    assert problems() == (line,)


def test_everything_that_is_wrong_is_said_at_once(env: pytest.MonkeyPatch) -> None:
    env.setenv("SLUICE_MAX_NUM_SEQS", "-1")
    env.setenv("SLUICE_PORT", "x")
    env.setenv("SLUICE_QUEUE_TIMEOUTS", "1")
    named = [line.split("=")[0].split(":")[0] for line in problems(headroom=2)]
    assert named == [
        "SLUICE_QUEUE_TIMEOUTS",
        "SLUICE_PORT",
        "SLUICE_MAX_NUM_SEQS",
        "SLUICE_HEADROOM",
    ]


def test_without_a_limit_there_is_no_start() -> None:
    (line,) = problems()
    assert line.startswith("SLUICE_MAX_NUM_SEQS: must be set")


@pytest.mark.parametrize("value", ["2", "16"])
def test_a_wish_for_more_processes_is_not_ignored(env: pytest.MonkeyPatch, value: str) -> None:
    env.setenv("WEB_CONCURRENCY", value)
    (line,) = problems()
    assert line.startswith(f"WEB_CONCURRENCY={value}: must be 1 or unset")


@pytest.mark.parametrize("value", ["", "1", "auto"])
def test_one_process_is_what_there_is(env: pytest.MonkeyPatch, value: str) -> None:
    env.setenv("WEB_CONCURRENCY", value)
    assert load_settings().workers == 1


def test_an_unknown_name_in_the_file_stops_the_start_too(env: pytest.MonkeyPatch) -> None:
    env.setenv("SLUICE_PORT", "1")
    Path(".env").write_text("SLUICE_QUEUE_DEPTH=4\n")
    (line,) = problems()
    assert line == (
        "SLUICE_QUEUE_DEPTH: no such setting; did you mean SLUICE_MAX_QUEUE_DEPTH? (in .env)"
    )


@pytest.mark.usefixtures("env")
def test_a_file_that_is_no_text_is_named() -> None:
    Path(".env").write_bytes(b"SLUICE_PORT=\xff\xfe\n")
    assert problems() == (".env: cannot be read (it is not UTF-8 text)",)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("UPSTREAM_API_KEY", "canary with blanks"),
        ("API_KEYS", "a:canary,a:canary2"),
        ("API_KEYS", "a:ca nary"),
        ("UPSTREAM_URLS", "http://user:canary@host"),
        ("UPSTREAM_URLS", "http://host/?key=canary"),
        ("UPSTREAM_URLZ", "canary"),
    ],
)
def test_no_line_shows_a_secret(env: pytest.MonkeyPatch, variable: str, value: str) -> None:
    env.setenv(f"SLUICE_{variable}", value)
    lines = "\n".join(problems())
    assert f"SLUICE_{variable}" in lines
    assert "canary" not in lines
    assert "nary" not in lines


def test_a_value_never_breaks_its_line_and_a_long_one_is_cut(env: pytest.MonkeyPatch) -> None:
    env.setenv("SLUICE_PORT", "1\n2" + "x" * 500)
    (line,) = problems()
    assert "\n" not in line
    assert len(line) < 200


def test_an_override_that_is_no_setting_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="no such settings: bogus"):
        load_settings({"bogus": 1})


# The table ---------------------------------------------------------------------------------------


def test_the_table_has_every_setting_with_its_value_and_source(env: pytest.MonkeyPatch) -> None:
    env.setenv("SLUICE_EXPOSE", "GET /health,POST /invocations")
    env.setenv("SLUICE_TENANT_HEADER", "X-Tenant")
    env.setenv("SLUICE_TENANT_WEIGHTS", "gold:3,free:.5")
    env.setenv("SLUICE_MAX_KV_TOKENS", "auto")
    rows = {row.variable: row for row in settings_table(load_settings({"port": 9000}))}
    assert list(rows) == [variable_name(field) for field in Settings.model_fields]
    assert (rows["SLUICE_PORT"].value, rows["SLUICE_PORT"].source) == ("9000", "flag")
    assert rows["SLUICE_MAX_NUM_SEQS"].source == "env"
    assert rows["SLUICE_MAX_IN_FLIGHT"].value == "57"
    assert rows["SLUICE_QUEUE_TIMEOUT"].value == "5"
    assert rows["SLUICE_QUEUE_TIMEOUT"].unit == "seconds"
    assert rows["SLUICE_EXPOSE"].value == "GET /health, POST /invocations"
    assert rows["SLUICE_TENANT_HEADER"].value == "x-tenant"
    assert rows["SLUICE_TENANT_WEIGHTS"].value == "gold:3, free:0.5"
    assert rows["SLUICE_MAX_KV_TOKENS"].value == "auto"
    assert rows["SLUICE_RETRY_BUDGET"].value == "0.2"
    assert rows["SLUICE_SHADOW"].value == "false"
    assert rows["SLUICE_TOTAL_TIMEOUT"].value == ""
    assert all(row.meaning for row in rows.values())


def test_the_table_masks_secrets(env: pytest.MonkeyPatch) -> None:
    env.setenv("SLUICE_API_KEYS", "a:canary")
    env.setenv("SLUICE_UPSTREAM_API_KEY", "canary")
    table = settings_table(load_settings())
    assert "canary" not in repr(table)
    assert {row.variable for row in table if row.value == "***"} == {
        "SLUICE_API_KEYS",
        "SLUICE_UPSTREAM_API_KEY",
    }


def test_a_derived_default_has_no_value_of_its_own() -> None:
    assert setting_default("max_queue_depth") == ""
    assert setting_default("port") == "8080"
    assert setting_default("total_timeout") == ""
