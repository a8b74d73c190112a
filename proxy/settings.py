"""Every `SLUICE_*` variable: its type, default, unit, range and meaning.

The field `max_queue_depth` is the variable `SLUICE_MAX_QUEUE_DEPTH`. proxy/config.py loads them and
puts what is wrong into words.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from proxy.client_settings import ClientSettings
from proxy.engine_settings import EngineSettings
from proxy.env_values import combinations, derived_defaults, fields, scalars
from proxy.env_values.client_keys import load_client_keys
from proxy.env_values.header_names import header_name
from proxy.env_values.key_digest import KeyDigest
from proxy.env_values.names import PREFIX, without_service_links
from proxy.env_values.tenant_weights import parse_tenant_weights
from proxy.observability_settings import ObservabilitySettings
from proxy.sharing_settings import SharingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

Source = Literal["flag", "env", ".env", "default"]

ENV_FILE = ".env"


class Settings(ClientSettings, ObservabilitySettings, SharingSettings, EngineSettings):
    """All settings, valid. Times in seconds, sizes in bytes; derived defaults are filled in."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        validate_default=False,
    )

    host: Annotated[
        str,
        AfterValidator(scalars.host_name),
        fields.described("Address of the public listener.", "a host name or an IP address"),
    ] = "0.0.0.0"
    port: Annotated[int, fields.port("Port of the public listener")] = 8080
    admin_host: Annotated[
        str,
        AfterValidator(scalars.host_name),
        fields.described(
            "Address of the admin listener: /metrics, /status, /healthz, /readyz.",
            "a host name or an IP address",
        ),
    ] = "127.0.0.1"
    admin_port: Annotated[int, fields.port("Port of the admin listener")] = 8081
    admin_token: Annotated[
        KeyDigest | None,
        BeforeValidator(scalars.token_digest),
        fields.described(
            "Bearer token for changes while the gateway runs, on the admin listener. "
            "Unset: nothing can be changed.",
            "a token of at least 16 characters",
        ),
    ] = None
    max_num_seqs: Annotated[
        int | None,
        fields.seats("The --max-num-seqs that vLLM was started with."),
    ] = None
    headroom: Annotated[
        float,
        Field(gt=0, lt=1, allow_inf_nan=False),
        fields.described(
            "Share of SLUICE_MAX_NUM_SEQS that is used; of the KV cache too, if "
            "SLUICE_MAX_KV_TOKENS=auto.",
            "a number above 0 and below 1",
        ),
    ] = 0.9
    max_in_flight: Annotated[
        int,
        fields.whole(
            "Seats (sequences) in the engine at once, below SLUICE_MAX_NUM_SEQS. "
            "Default: SLUICE_MAX_NUM_SEQS x SLUICE_HEADROOM, rounded down.",
            1,
            fields.MOST_SEATS,
            "sequences",
        ),
    ] = Field(default_factory=derived_defaults.share_of_max_num_seqs)
    max_seats_per_request: Annotated[
        int | None,
        fields.seats(
            "Requests for more sequences are refused at once. "
            "Unset: they wait their turn and run alone."
        ),
    ] = None
    max_queue_depth: Annotated[
        int,
        fields.whole(
            "Requests that may wait; 0 = none ever waits. Default: SLUICE_MAX_IN_FLIGHT.",
            0,
            fields.MOST_SEATS,
            "requests",
        ),
    ] = Field(default_factory=derived_defaults.seats_of_all_upstreams)
    queue_timeout: Annotated[
        float,
        fields.seconds_or_zero(
            "Longest wait for a seat, counted from the last byte of the request; 0 = never wait."
        ),
    ] = 5.0
    overload_status: Annotated[
        Literal[503, 429],
        BeforeValidator(scalars.whole_number),
        fields.described("Status of a refusal for lack of room.", "503 or 429"),
    ] = 503
    max_prefill_tokens: Annotated[
        int | None,
        fields.tokens("Estimated prompt tokens of requests before their first byte."),
    ] = None
    max_kv_tokens: Annotated[
        Annotated[int, Field(ge=1, le=fields.MOST_TOKENS)] | Literal["auto"] | None,
        BeforeValidator(scalars.lower_case),
        fields.described(
            "Estimated prompt and output tokens in flight. "
            "auto: the size of the engine's KV cache x SLUICE_HEADROOM.",
            f"a whole number from 1 to {fields.MOST_TOKENS}, or auto",
            "tokens",
        ),
    ] = None
    adaptive: Annotated[
        bool,
        fields.switch("Let the limit move below SLUICE_MAX_IN_FLIGHT as the engine fills up."),
    ] = False
    retry_budget: Annotated[
        float, fields.share("Retries that are invited, as a share of what is admitted.")
    ] = 0.2
    priority_header: Annotated[
        str,
        AfterValidator(header_name),
        fields.described("Header that says high, normal or low.", "a header name"),
    ] = "x-sluice-priority"
    tenant_header: Annotated[
        str | None,
        AfterValidator(header_name),
        fields.described(
            "Header that names the tenant; something trusted in front must set it, for a client "
            "can write what it likes. Unset: the name of the client key.",
            "a header name",
        ),
    ] = None
    tenant_max_in_flight: Annotated[
        int | None,
        fields.seats("Seats that one tenant may take, at most SLUICE_MAX_IN_FLIGHT."),
    ] = None
    tenant_weights: Annotated[
        tuple[tuple[str, float], ...],
        NoDecode,
        BeforeValidator(parse_tenant_weights),
        fields.described(
            "Shares of tenants where they compete, `name:weight`, comma-separated; others have 1.",
            "`name:weight`, comma-separated",
        ),
    ] = ()
    connect_timeout: Annotated[float, fields.seconds("Longest time to connect to the engine.")] = (
        5.0
    )
    first_byte_timeout: Annotated[
        float, fields.seconds("Longest silence of the engine before the first byte of its answer.")
    ] = 600.0
    idle_timeout: Annotated[
        float, fields.seconds("Longest silence of the engine between two chunks.")
    ] = 120.0
    total_timeout: Annotated[
        float | None,
        fields.seconds(
            "Longest time for a whole exchange with the engine. "
            "Unset: no limit, and a generation without an end keeps its seat."
        ),
    ] = None
    drain_timeout: Annotated[
        float, fields.seconds_or_zero("Time for running requests to finish after SIGTERM.")
    ] = 30.0
    shadow: Annotated[bool, fields.switch("Count what would have been shed, and admit it.")] = False
    workers: Annotated[
        int,
        fields.whole(
            "Processes on this port; more than one share the limits through SLUICE_REDIS_URL.",
            1,
            fields.MOST_WORKERS,
            "processes",
        ),
    ] = 1
    event_loop: Annotated[
        Literal["auto", "uvloop", "asyncio"],
        BeforeValidator(scalars.lower_case),
        fields.described(
            "What runs the process: asyncio is Python's own event loop. "
            "auto: uvloop where it is installed.",
            "auto, uvloop or asyncio",
        ),
    ] = "auto"
    trace_file: Annotated[
        Path | None,
        AfterValidator(scalars.writable_file),
        fields.described(
            "File to append one line a request to, for `sluice replay`: times, sizes and outcome; "
            "no text, no keys.",
            "a path in a directory that exists",
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        BeforeValidator(scalars.lower_case),
        fields.described("Least severity that is logged.", "debug, info, warning or error"),
    ] = "info"
    log_format: Annotated[
        Literal["console", "json"],
        BeforeValidator(scalars.lower_case),
        fields.described(
            "How log lines look. Default: console on a terminal, else json.", "console or json"
        ),
    ] = Field(default_factory=derived_defaults.console_on_a_terminal)

    _client_keys: dict[str, KeyDigest] = PrivateAttr(default_factory=dict)
    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    def of_a_worker(self, whole: int) -> int:
        """A worker's part of what all of this gateway have together, rounded up."""
        return -(-whole // self.workers)

    def places(self, upstreams: int) -> int:
        """How many may wait in one worker, in front of so many engines."""
        return self.of_a_worker(self.places_in_all(upstreams))

    def places_in_all(self, upstreams: int) -> int:
        """How many may wait in front of so many engines, in all queues of all workers."""
        if "max_queue_depth" in self.model_fields_set:
            return self.max_queue_depth
        return self.max_in_flight * upstreams

    @property
    def client_keys(self) -> Mapping[str, KeyDigest]:
        """By name, of SLUICE_API_KEYS and SLUICE_API_KEYS_FILE; empty = nobody is asked."""
        return self._client_keys

    @property
    def weights_by_tenant(self) -> Mapping[str, float]:
        """The weights of SLUICE_TENANT_WEIGHTS; whoever is not there has 1."""
        return dict(self.tenant_weights)

    def source_of(self, field: str) -> Source:
        """Where the value of a field came from."""
        return self._sources.get(field, "default")

    def remember_sources(self, sources: Mapping[str, Source]) -> Self:
        """Notes where the values came from, for source_of; load_settings does."""
        self._sources = dict(sources)
        return self

    def remember_client_keys(self, keys: Mapping[str, KeyDigest]) -> None:
        """Those of the variable and the file together."""
        self._client_keys = dict(keys)

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
            env_settings.env_vars = without_service_links(env_settings.env_vars)
        return init_settings, env_settings, dotenv_settings

    @field_validator("*", mode="before")
    @classmethod
    def _as_people_write_it(cls, value: object, info: ValidationInfo) -> object:
        return fields.as_people_write_it(cls.model_fields[str(info.field_name)], value)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [
            *combinations.limit_problems(self.max_num_seqs, self.max_in_flight),
            *combinations.upstream_problems(
                "upstream_urls" in self.model_fields_set, self.upstreams_file
            ),
            *combinations.listener_problems(self.host, self.port, self.admin_host, self.admin_port),
            *combinations.own_address_problems(
                self.upstream_urls, self.host, self.port, self.admin_host, self.admin_port
            ),
            *combinations.header_problems(self.priority_header, self.tenant_header),
            *combinations.tenant_cap_problems(self.tenant_max_in_flight, self.max_in_flight),
            *combinations.worker_problems(self.workers, self.redis_url is not None),
        ]
        try:
            keys = load_client_keys(self.api_keys or (), self.api_keys_file)
        except ValueError as error:
            problems.append(str(error))
        else:
            self.remember_client_keys(keys)
            weighted = self.weights_by_tenant
            problems += combinations.tenant_weight_problems(weighted, self.tenant_header, keys)
        if problems:
            raise ValueError("\n".join(problems))
        return self
