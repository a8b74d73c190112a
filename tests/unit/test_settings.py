"""Every field: its default, its range, and that it says what it means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from proxy.env_values.key_digest import KeyDigest
from proxy.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("clean_environment")


def settings(**values: object) -> Settings:
    given: dict[str, Any] = {"max_num_seqs": 64, **values}
    return Settings(**given)


def faults(**values: object) -> set[str]:
    """Fields that are refused, "" for a rule over several."""
    with pytest.raises(ValidationError) as caught:
        settings(**values)
    # A default that is made from other fields is not made where one of them is at fault.
    judged = [one for one in caught.value.errors() if one["type"] != "default_factory_not_called"]
    return {str(error["loc"][0]) if error["loc"] else "" for error in judged}


def test_the_defaults_are_those_of_the_contract() -> None:
    defaults = settings().model_dump(exclude={"log_format"})
    assert defaults == {
        "upstream_urls": ("http://127.0.0.1:8000",),
        "upstreams_file": None,
        "redis_url": None,
        "cluster": "default",
        "dns_interval": 5.0,
        "upstream_api_key": None,
        "upstream_client": "pool",
        "affinity": "none",
        "session_header": "x-session-id",
        "affinity_prefix_bytes": 4096,
        "host": "0.0.0.0",
        "port": 8080,
        "admin_host": "127.0.0.1",
        "admin_port": 8081,
        "admin_token": None,
        "max_num_seqs": 64,
        "headroom": 0.9,
        "max_in_flight": 57,
        "max_seats_per_request": None,
        "max_queue_depth": 57,
        "queue_timeout": 5.0,
        "overload_status": 503,
        "max_prefill_tokens": None,
        "max_kv_tokens": None,
        "adaptive": False,
        "retry_budget": 0.2,
        "priority_header": "x-sluice-priority",
        "tenant_header": None,
        "tenant_max_in_flight": None,
        "tenant_weights": (),
        "api_keys": None,
        "api_keys_file": None,
        "max_connections": None,
        "max_connections_per_address": None,
        "max_body_bytes": 64 * 1024 * 1024,
        "body_timeout": 30.0,
        "connect_timeout": 5.0,
        "first_byte_timeout": 600.0,
        "idle_timeout": 120.0,
        "total_timeout": None,
        "write_timeout": 60.0,
        "drain_timeout": 30.0,
        "expose": (),
        "shadow": False,
        "workers": 1,
        "event_loop": "auto",
        "trace_file": None,
        "access_log_sample": 1.0,
        "otlp_endpoint": None,
        "otlp_sample": 1.0,
        "log_level": "info",
    }


@pytest.mark.parametrize(("terminal", "log_format"), [(True, "console"), (False, "json")])
def test_people_get_lines_to_read_and_programs_json(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, log_format: str
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    assert settings().log_format == log_format


# The limit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_num_seqs", "headroom", "limit"),
    [(64, 0.9, 57), (10, 0.9, 9), (100, 0.29, 29), (2, 0.1, 1), (3, 0.99, 2), (1000, 0.999, 999)],
)
def test_the_limit_is_the_share_rounded_down_and_at_least_one(
    max_num_seqs: int, headroom: float, limit: int
) -> None:
    assert settings(max_num_seqs=max_num_seqs, headroom=headroom).max_in_flight == limit


def test_the_limit_that_is_set_is_the_limit() -> None:
    assert settings(max_in_flight=8).max_in_flight == 8
    assert settings(max_num_seqs=None, max_in_flight=8).max_in_flight == 8


def test_the_queue_is_as_long_as_the_limit_unless_it_is_set() -> None:
    assert settings(max_in_flight=8).max_queue_depth == 8
    assert settings(max_in_flight=8, max_queue_depth=0).max_queue_depth == 0


@pytest.mark.parametrize(
    "values",
    [
        {"max_in_flight": 64},
        {"max_num_seqs": 1},
        {"max_num_seqs": None},
        {"admin_port": 8080},
        {"tenant_header": "X-Sluice-Priority"},
        {"max_in_flight": 8, "tenant_max_in_flight": 9},
        {"tenant_weights": "gold:3"},
        {"tenant_weights": "gold:3", "api_keys": "a:sk-1"},
    ],
)
def test_what_does_not_go_together_is_refused(values: dict[str, object]) -> None:
    assert faults(**values) == {""}


# Ranges ------------------------------------------------------------------------------------------

TIMES = [
    "body_timeout",
    "connect_timeout",
    "first_byte_timeout",
    "idle_timeout",
    "total_timeout",
    "write_timeout",
]
TIMES_OR_ZERO = ["queue_timeout", "drain_timeout"]


@pytest.mark.parametrize("field", [*TIMES, *TIMES_OR_ZERO])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e9", "soon", "5s"])
def test_a_time_is_a_finite_sane_number_of_seconds(field: str, value: str) -> None:
    assert field in faults(**{field: value})


@pytest.mark.parametrize("field", TIMES)
def test_a_timeout_of_zero_would_fail_every_request(field: str) -> None:
    assert faults(**{field: "0"}) == {field}


@pytest.mark.parametrize("field", TIMES_OR_ZERO)
def test_zero_means_never_wait(field: str) -> None:
    assert getattr(settings(**{field: "0"}), field) == 0


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("port", ["-1", "65536", "http", "80.5", "tcp://10.0.0.1:80"]),
        ("admin_port", ["-1", "65536"]),
        ("max_num_seqs", ["0", "-4", "many", "1e9", "1000001"]),
        ("max_in_flight", ["0", "-4", "nan"]),
        ("max_seats_per_request", ["0", "x"]),
        ("max_queue_depth", ["-1", "inf"]),
        ("headroom", ["0", "1", "1.5", "-0.1", "nan", "inf"]),
        ("max_body_bytes", ["0", "64MB", "1e20"]),
        ("overload_status", ["500", "200", "busy", "-503", ""]),
        ("max_prefill_tokens", ["0", "-1", "auto", "1000000001", "8k"]),
        ("max_kv_tokens", ["0", "-1", "automatic", "1000000001", "nan"]),
        ("adaptive", ["sometimes"]),
        ("retry_budget", ["-0.1", "1.1", "nan", "inf", "20%"]),
        ("priority_header", ["x priority", "Authorization", "host"]),
        ("tenant_header", ["x:tenant", "Content-Length", "x-request-id", "connection"]),
        ("tenant_max_in_flight", ["0", "-1", "1.5", "1000001"]),
        ("tenant_weights", ["gold", "gold:0", "a:1,a:2"]),
        ("upstream_client", ["aiohttp"]),
        ("dns_interval", ["-1", "nan", "often"]),
        ("upstream_urls", ["127.0.0.1:8000", "ftp://x", "http://u:p@x", "http://x?a=1", "http://"]),
        ("upstream_api_key", ["a b"]),
        ("expose", ["/health", "GET /x?y"]),
        ("shadow", ["maybe"]),
        ("workers", ["0", "257", "auto"]),
        ("event_loop", ["trio"]),
        ("log_level", ["loud"]),
        ("log_format", ["xml"]),
        ("host", ["http://x"]),
    ],
)
def test_a_value_out_of_range_is_refused(field: str, values: list[str]) -> None:
    for value in values:
        assert field in faults(**{field: value})


@pytest.mark.parametrize("written", ["1_0", "+10", "1e1_0", "١٠", "１０", "nan", "10\u00a0"])
def test_what_only_python_takes_for_a_number_is_refused_in_every_field_of_numbers(
    written: str,
) -> None:
    fields = Settings.model_fields.items()
    numbers = {
        field for field, info in fields if re.search(r"\b(int|float)\b", str(info.annotation))
    }
    assert {"port", "headroom", "max_kv_tokens", "max_connections", "otlp_sample"} <= numbers
    assert numbers <= faults(**dict.fromkeys(numbers, written))


@pytest.mark.parametrize(
    ("field", "written", "value"),
    [
        ("port", " 80\n", 80),
        ("max_body_bytes", "64.0", 64),
        ("queue_timeout", "1e1", 10),
        ("port", "0", 0),
        ("port", "65535", 65_535),
        ("overload_status", "429", 429),
        ("shadow", "true", True),
        ("shadow", "0", False),
        ("log_level", "DEBUG", "debug"),
        ("log_format", "Console", "console"),
        ("event_loop", "Asyncio", "asyncio"),
        ("upstream_client", "httpx", "httpx"),
        ("upstream_urls", "https://gpu:8443/engines/a/v1/", ("https://gpu:8443/engines/a/v1/",)),
        ("expose", "POST /invocations", (("POST", "/invocations"),)),
        ("queue_timeout", "0.25", 0.25),
        ("workers", "1", 1),
        ("max_prefill_tokens", "32768", 32_768),
        ("max_kv_tokens", "500000", 500_000),
        ("max_kv_tokens", "Auto", "auto"),
        ("adaptive", "true", True),
        ("retry_budget", "0", 0.0),
        ("retry_budget", "1", 1.0),
        ("priority_header", "X-Priority", "x-priority"),
        ("tenant_header", "X-Tenant", "x-tenant"),
        ("tenant_max_in_flight", "57", 57),
    ],
)
def test_a_value_is_read_as_it_is_written(field: str, written: str, value: object) -> None:
    assert getattr(settings(**{field: written}), field) == value


def test_weights_are_read_exactly_and_by_tenant() -> None:
    effective = settings(tenant_header="x-tenant", tenant_weights="gold:3, free:0.1")
    assert effective.tenant_weights == (("gold", 3.0), ("free", 0.1))
    assert effective.weights_by_tenant == {"gold": 3.0, "free": 0.1}
    assert settings().weights_by_tenant == {}


def test_tenants_are_client_keys_unless_a_header_names_them(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("b:sk-2\n")
    by_key = settings(api_keys="a:sk-1", api_keys_file=file, tenant_weights="a:1,b:2")
    assert by_key.weights_by_tenant == {"a": 1.0, "b": 2.0}
    settings(api_keys="a:sk-1", tenant_header="x-tenant", tenant_weights="gold:3")


# Keys --------------------------------------------------------------------------------------------


def test_client_keys_come_from_variable_and_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("b:sk-2\n")
    keys = settings(api_keys="a:sk-1", api_keys_file=file).client_keys
    assert keys == {"a": KeyDigest.of("sk-1"), "b": KeyDigest.of("sk-2")}


def test_no_client_keys_ask_nobody() -> None:
    assert settings().client_keys == {}


def test_no_representation_shows_a_key() -> None:
    effective = settings(api_keys="a:canary", upstream_api_key="canary")
    shown = f"{effective!r} {effective} {effective.model_dump()} {effective.client_keys}"
    assert "canary" not in shown


@pytest.mark.parametrize("written", ["a:1,a:2", "a:1,b:1", "a:", ","])
def test_keys_that_cannot_be_told_apart_are_refused(written: str) -> None:
    assert faults(api_keys=written) == {"api_keys"}


# Every field -------------------------------------------------------------------------------------


def test_settings_cannot_change_after_the_start() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        settings().port = 1


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_field_says_what_it_means_and_what_it_must_be(field: str) -> None:
    info = Settings.model_fields[field]
    assert info.description is not None
    assert info.description.endswith(".")
    assert isinstance(info.json_schema_extra, dict)
    assert info.json_schema_extra["rule"]


def test_workers_have_a_part_of_the_places_each_rounded_up() -> None:
    shared = {"workers": 4, "redis_url": "redis://store:6379/0", "max_num_seqs": 64}
    set_here = Settings(max_queue_depth=10, **shared)  # type: ignore[arg-type]
    assert (set_here.places_in_all(2), set_here.places(2)) == (10, 3)
    derived = Settings(**shared)  # type: ignore[arg-type]
    assert (derived.places_in_all(2), derived.places(2)) == (114, 29)
    assert derived.of_a_worker(0) == 0
