"""Every metric that Sluice exports: its name, what it means, its labels; of gauges also what the
gauges of several workers are together.

Counters and histograms of several workers are summed, and so are those of workers that have ended.
A gauge is a state, and only its meaning tells what several of it come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Together(StrEnum):
    """What the gauges of several workers are for the gateway as a whole.

    `SUM`: each has a part of it. `MOST` and `LEAST`: all look at the same thing, or may differ, and
    the one to worry about is shown.
    """

    SUM = "sum"
    MOST = "most"
    LEAST = "least"


@dataclass(frozen=True, slots=True)
class Declaration:
    """Of a counter or a histogram."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gauge:
    """`together`: how several workers' make one."""

    name: str
    help: str
    together: Together
    labels: tuple[str, ...] = ()


# 1 ms to 600 s, as prometheus_client's own end at 10 s and a generation does not.
DURATION_BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)

REQUESTS = Declaration(
    "sluice_requests_total", "Requests that ended, by how.", ("route", "outcome")
)
ARRIVALS = Declaration(
    "sluice_arrivals_total",
    "Requests that came in: first attempts, and retries of a client's SDK.",
    ("attempt",),
)
SHEDS = Declaration("sluice_shed_total", "Requests refused under load, by reason.", ("reason",))
SHADOW_SHEDS = Declaration(
    "sluice_shadow_shed_total",
    "Requests admitted in shadow mode that would have been refused, by reason.",
    ("reason",),
)
CONNECTIONS_REFUSED = Declaration(
    "sluice_connections_refused_total",
    "Connections that were one too many, by the bound that they were over.",
    ("bound",),
)
QUEUE_WAIT = Declaration(
    "sluice_queue_wait_seconds",
    "Time from asking for a seat to getting it, giving up, or leaving.",
    ("outcome",),
)
DURATION = Declaration(
    "sluice_request_duration_seconds",
    "Time from arrival to the last byte, of requests that were not refused.",
    ("route",),
)
FIRST_BYTE = Declaration(
    "sluice_time_to_first_byte_seconds",
    "Time from arrival to the first byte of the engine's answer.",
    ("route",),
)
IN_FLIGHT = Gauge("sluice_in_flight", "Seats taken.", Together.SUM, ("upstream",))
LIMIT = Gauge("sluice_concurrency_limit", "Seats there are.", Together.SUM, ("upstream",))
OPEN_REQUESTS = Gauge(
    "sluice_open_requests",
    "Requests at the engine that take no seat.",
    Together.SUM,
    ("upstream",),
)
QUEUE_DEPTH = Gauge("sluice_queue_depth", "Requests waiting for a seat.", Together.SUM)
MAX_QUEUE_DEPTH = Gauge(
    "sluice_max_queue_depth", "Requests that may wait for a seat.", Together.SUM
)
DRAINING = Gauge("sluice_draining", "1 while shutting down.", Together.LEAST)
BINDING_LIMIT = Gauge(
    "sluice_binding_limit", "1 for the limit that binds first.", Together.MOST, ("which",)
)
BUILD_INFO = Gauge("sluice_build_info", "Always 1.", Together.MOST, ("version", "python"))
TOKENS_IN_FLIGHT = Gauge(
    "sluice_tokens_in_flight",
    "Estimated tokens: of prompts before their first byte, and of all requests in flight.",
    Together.SUM,
    ("kind",),
)
TOKEN_ESTIMATE_ERROR = Gauge(
    "sluice_token_estimate_error_ratio",
    "How far the estimates of prompt tokens were off lately, on average: 0.1 is a tenth.",
    Together.MOST,
)
UP = Gauge(
    "sluice_upstream_up", "1 if the engine answers its health check.", Together.LEAST, ("upstream",)
)
STALLED = Gauge(
    "sluice_upstream_stalled",
    "1 if the engine holds work and makes no progress.",
    Together.MOST,
    ("upstream",),
)
TAKEN_OUT = Gauge(
    "sluice_upstream_taken_out",
    "1 while the engine gets nothing, or one request to try it, because requests failed there.",
    Together.MOST,
    ("upstream",),
)
METRICS_AGE = Gauge(
    "sluice_upstream_metrics_age_seconds",
    "Age of the engine's figures below.",
    Together.MOST,
    ("upstream",),
)
ENGINE_RUNNING = Gauge(
    "sluice_engine_running",
    "Requests running in the engine, as it says.",
    Together.MOST,
    ("upstream",),
)
ENGINE_WAITING = Gauge(
    "sluice_engine_waiting",
    "Requests queued inside the engine, as it says.",
    Together.MOST,
    ("upstream",),
)
ENGINE_KV_CACHE_USAGE = Gauge(
    "sluice_engine_kv_cache_usage",
    "Share of the KV cache in use, 0 to 1.",
    Together.MOST,
    ("upstream",),
)
STORE_UP = Gauge("sluice_store_up", "1 if the store of the shared limit answers.", Together.LEAST)
STORE_AGE = Gauge("sluice_store_age_seconds", "Time since the store last answered.", Together.MOST)
GATEWAYS = Gauge(
    "sluice_gateways", "Gateways that share the limit, this one included.", Together.MOST
)
LEASED = Gauge("sluice_leased_seats", "Seats that this gateway holds.", Together.SUM, ("upstream",))
WORKERS = Gauge("sluice_workers", "Worker processes that take requests.", Together.SUM)
WORKERS_LOST = Declaration(
    "sluice_workers_lost_total", "Workers that ended without having been told to."
)

# What prometheus_client says of a process. A limit or a beginning cannot be added up.
PROCESS_GAUGES = (
    ("process_virtual_memory_bytes", Together.SUM),
    ("process_resident_memory_bytes", Together.SUM),
    ("process_start_time_seconds", Together.LEAST),
    ("process_open_fds", Together.SUM),
    ("process_max_fds", Together.LEAST),
)

_GAUGES = (
    IN_FLIGHT,
    LIMIT,
    OPEN_REQUESTS,
    QUEUE_DEPTH,
    MAX_QUEUE_DEPTH,
    DRAINING,
    BINDING_LIMIT,
    BUILD_INFO,
    TOKENS_IN_FLIGHT,
    TOKEN_ESTIMATE_ERROR,
    UP,
    STALLED,
    TAKEN_OUT,
    METRICS_AGE,
    ENGINE_RUNNING,
    ENGINE_WAITING,
    ENGINE_KV_CACHE_USAGE,
    STORE_UP,
    STORE_AGE,
    GATEWAYS,
    LEASED,
    WORKERS,
)
TOGETHER = {**{gauge.name: gauge.together for gauge in _GAUGES}, **dict(PROCESS_GAUGES)}
"""The rule of every gauge on the page, by its name."""
