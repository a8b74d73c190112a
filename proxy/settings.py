"""Every `SLUICE_*` variable: its type, default, unit, range and meaning.

The field `max_queue_depth` is the variable `SLUICE_MAX_QUEUE_DEPTH`. proxy/config.py loads them and
puts what is wrong into words.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from proxy.env_values.client_keys import load_client_keys
from proxy.env_values.combinations import limit_problems, listener_problems
from proxy.env_values.exposed_paths import parse_exposed_paths
from proxy.env_values.names import PREFIX, is_service_link
from proxy.env_values.scalars import (
    header_safe_secret,
    host_name,
    lower_case,
    one_process,
    readable_file,
    whole_number,
    writable_file,
)
from proxy.env_values.urls import split_urls
from proxy.upstream.address import UpstreamAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.config import JsonDict
    from pydantic.fields import FieldInfo

Source = Literal["flag", "env", ".env", "default"]

ENV_FILE = ".env"
_MOST_SEATS = 1_000_000
_DAY_S = 86_400


def _meaning(meaning: str, rule: str, unit: str = "") -> FieldInfo:
    """What a field means; `rule` ends the sentence "must be ..."."""
    extra: JsonDict = {"unit": unit, "rule": rule}
    field: FieldInfo = Field(description=meaning, json_schema_extra=extra)
    return field


def _whole(meaning: str, low: int, high: int, unit: str = "") -> FieldInfo:
    extra: JsonDict = {"unit": unit, "rule": f"a whole number from {low} to {high}"}
    field: FieldInfo = Field(description=meaning, json_schema_extra=extra, ge=low, le=high)
    return field


def _seconds(meaning: str) -> FieldInfo:
    """A time above 0."""
    extra: JsonDict = {
        "unit": "seconds",
        "rule": f"a number of seconds above 0, at most {_DAY_S}",
    }
    field: FieldInfo = Field(
        description=meaning, json_schema_extra=extra, gt=0, le=_DAY_S, allow_inf_nan=False
    )
    return field


def _seconds_or_zero(meaning: str) -> FieldInfo:
    extra: JsonDict = {"unit": "seconds", "rule": f"a number of seconds from 0 to {_DAY_S}"}
    field: FieldInfo = Field(
        description=meaning, json_schema_extra=extra, ge=0, le=_DAY_S, allow_inf_nan=False
    )
    return field


def _addresses(urls: tuple[str, ...]) -> tuple[str, ...]:
    for url in urls:
        UpstreamAddress.parse(url)
    return urls


def _share_of_max_num_seqs(data: dict[str, Any]) -> int:
    if data["max_num_seqs"] is None:
        return 0  # refused below, in words
    return max(1, int(data["max_num_seqs"] * Decimal(str(data["headroom"]))))


def _seats_of_all_upstreams(data: dict[str, Any]) -> int:
    return int(data["max_in_flight"]) * len(data["upstream_urls"])


def _console_on_a_terminal() -> Literal["console", "json"]:
    return "console" if sys.stderr.isatty() else "json"


class Settings(BaseSettings):
    """All settings, valid. Times in seconds, sizes in bytes; derived defaults are filled in."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        validate_default=False,
    )

    upstream_urls: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(split_urls),
        AfterValidator(_addresses),
        _meaning(
            "Base URL of the engine; with or without a trailing slash, /v1 or a path prefix.",
            "a base URL",
        ),
    ] = ("http://127.0.0.1:8000",)
    upstream_api_key: Annotated[
        SecretStr | None,
        AfterValidator(header_safe_secret),
        _meaning(
            "Bearer key for the engine. When set it replaces the client's Authorization.", "a key"
        ),
    ] = None
    upstream_client: Annotated[
        Literal["pool", "httpx"],
        _meaning("HTTP client towards the engine: the own pool, or httpx.", "pool or httpx"),
    ] = "pool"
    host: Annotated[
        str,
        AfterValidator(host_name),
        _meaning("Address of the public listener.", "a host name or an IP address"),
    ] = "0.0.0.0"
    port: Annotated[int, _whole("Port of the public listener; 0 = any free one.", 0, 65_535)] = 8080
    admin_host: Annotated[
        str,
        AfterValidator(host_name),
        _meaning(
            "Address of the admin listener: /metrics, /healthz, /readyz.",
            "a host name or an IP address",
        ),
    ] = "127.0.0.1"
    admin_port: Annotated[
        int, _whole("Port of the admin listener; 0 = any free one.", 0, 65_535)
    ] = 8081
    max_num_seqs: Annotated[
        int | None,
        _whole("The --max-num-seqs that vLLM was started with.", 1, _MOST_SEATS, "sequences"),
    ] = None
    headroom: Annotated[
        float,
        Field(gt=0, lt=1, allow_inf_nan=False),
        _meaning("Share of SLUICE_MAX_NUM_SEQS that is used.", "a number above 0 and below 1"),
    ] = 0.9
    max_in_flight: Annotated[
        int,
        _whole(
            "Seats (sequences) in the engine at once, below SLUICE_MAX_NUM_SEQS. "
            "Default: SLUICE_MAX_NUM_SEQS x SLUICE_HEADROOM, rounded down.",
            1,
            _MOST_SEATS,
            "sequences",
        ),
    ] = Field(default_factory=_share_of_max_num_seqs)
    max_seats_per_request: Annotated[
        int | None,
        _whole(
            "Requests for more sequences are refused at once. "
            "Unset: they wait their turn and run alone.",
            1,
            _MOST_SEATS,
            "sequences",
        ),
    ] = None
    max_queue_depth: Annotated[
        int,
        _whole(
            "Requests that may wait; 0 = none ever waits. Default: SLUICE_MAX_IN_FLIGHT.",
            0,
            _MOST_SEATS,
            "requests",
        ),
    ] = Field(default_factory=_seats_of_all_upstreams)
    queue_timeout: Annotated[
        float,
        _seconds_or_zero(
            "Longest wait for a seat, counted from the last byte of the request; 0 = never wait."
        ),
    ] = 5.0
    overload_status: Annotated[
        Literal[503, 429],
        BeforeValidator(whole_number),
        _meaning("Status of a refusal for lack of room.", "503 or 429"),
    ] = 503
    api_keys: Annotated[
        SecretStr | None,
        _meaning(
            "Client keys, `name:key` or `key`, comma or line separated. Unset: nobody is asked.",
            "keys as `name:key` or `key`",
        ),
    ] = None
    api_keys_file: Annotated[
        Path | None,
        AfterValidator(readable_file),
        _meaning("File with more client keys, written the same way.", "a readable file"),
    ] = None
    max_body_bytes: Annotated[int, _whole("Largest request body.", 1, 16 * 1024**3, "bytes")] = (
        64 * 1024 * 1024
    )
    body_timeout: Annotated[float, _seconds("Longest time for a request body to arrive.")] = 30.0
    connect_timeout: Annotated[float, _seconds("Longest time to connect to the engine.")] = 5.0
    first_byte_timeout: Annotated[
        float, _seconds("Longest silence of the engine before the first byte of its answer.")
    ] = 600.0
    idle_timeout: Annotated[
        float, _seconds("Longest silence of the engine between two chunks.")
    ] = 120.0
    total_timeout: Annotated[
        float | None,
        _seconds(
            "Longest time for a whole exchange with the engine. "
            "Unset: no limit, and a generation without an end keeps its seat."
        ),
    ] = None
    write_timeout: Annotated[
        float,
        _seconds("A client that reads nothing for so long, with something to send, is dropped."),
    ] = 60.0
    drain_timeout: Annotated[
        float, _seconds_or_zero("Time for running requests to finish after SIGTERM.")
    ] = 30.0
    expose: Annotated[
        tuple[tuple[str, str], ...],
        NoDecode,
        BeforeValidator(parse_exposed_paths),
        _meaning(
            "Further routes to let through to the engine, `METHOD /path`, comma-separated.",
            "`METHOD /path`, comma-separated",
        ),
    ] = ()
    shadow: Annotated[
        bool, _meaning("Count what would have been shed, and admit it.", "true or false")
    ] = False
    workers: Annotated[
        int,
        BeforeValidator(one_process),
        _meaning("Processes; this version runs one.", "1"),
    ] = 1
    trace_file: Annotated[
        Path | None,
        AfterValidator(writable_file),
        _meaning(
            "File to append one line a request to, for `sluice replay`: times, sizes and outcome; "
            "no text, no keys.",
            "a path in a directory that exists",
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        BeforeValidator(lower_case),
        _meaning("Least severity that is logged.", "debug, info, warning or error"),
    ] = "info"
    log_format: Annotated[
        Literal["console", "json"],
        BeforeValidator(lower_case),
        _meaning(
            "How log lines look. Default: console on a terminal, else json.", "console or json"
        ),
    ] = Field(default_factory=_console_on_a_terminal)

    _client_keys: dict[str, SecretStr] = PrivateAttr(default_factory=dict)
    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    @property
    def upstream_url(self) -> str:
        """Base URL of the one engine of this version."""
        return self.upstream_urls[0]

    @property
    def client_keys(self) -> Mapping[str, SecretStr]:
        """Key by name, of SLUICE_API_KEYS and SLUICE_API_KEYS_FILE; empty = nobody is asked."""
        return self._client_keys

    def source_of(self, field: str) -> Source:
        """Where the value of a field came from."""
        return self._sources.get(field, "default")

    def remember_sources(self, sources: Mapping[str, Source]) -> Self:
        """Notes where the values came from, for source_of; load_settings does."""
        self._sources = dict(sources)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the hook's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - no secrets directory
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        if isinstance(env_settings, EnvSettingsSource):
            env_settings.env_vars = {
                name: value
                for name, value in env_settings.env_vars.items()
                if not is_service_link(name.upper(), value or "")
            }
        return init_settings, env_settings, dotenv_settings

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [
            *limit_problems(self.max_num_seqs, self.max_in_flight),
            *listener_problems(self.host, self.port, self.admin_host, self.admin_port),
        ]
        try:
            keys = load_client_keys(_secret_text(self.api_keys), self.api_keys_file)
            self._client_keys = {name: SecretStr(key) for name, key in keys.items()}
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        return self


def _secret_text(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret is not None else ""
