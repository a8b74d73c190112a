"""Values that are sound alone and not together. Each fault is one line that names the variables."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})
_THIS_MACHINE = _EVERY_ADDRESS | {"127.0.0.1", "::1", "localhost"}
_USUAL_PORTS = {"http": 80, "https": 443}


def limit_problems(max_num_seqs: int | None, max_in_flight: int) -> Iterator[str]:
    """`max_in_flight` is 0 when nobody set it and there is nothing to derive it from."""
    if max_in_flight < 1:
        yield (
            "SLUICE_MAX_NUM_SEQS: must be set to the --max-num-seqs that vLLM was started with "
            "(or set SLUICE_MAX_IN_FLIGHT)"
        )
    elif max_num_seqs == 1:
        yield (
            "SLUICE_MAX_NUM_SEQS=1: leaves no room, the limit must be below it and at least 1; "
            "start vLLM with --max-num-seqs 2 or more, or set SLUICE_MAX_IN_FLIGHT=1 instead of it"
        )
    elif max_num_seqs is not None and max_in_flight >= max_num_seqs:
        yield (
            f"SLUICE_MAX_IN_FLIGHT={max_in_flight}: must be below "
            f"SLUICE_MAX_NUM_SEQS={max_num_seqs}, or requests pile up in the engine's own queue"
        )


def upstream_problems(urls_are_given: bool, upstreams_file: Path | None) -> Iterator[str]:
    if urls_are_given and upstreams_file is not None:
        yield (
            f"SLUICE_UPSTREAMS_FILE={upstreams_file}: names the engines in place of "
            "SLUICE_UPSTREAM_URLS, which is set too; unset one of them"
        )


def listener_problems(host: str, port: int, admin_host: str, admin_port: int) -> Iterator[str]:
    hosts = {host, admin_host}
    if port == admin_port != 0 and (len(hosts) == 1 or hosts & _EVERY_ADDRESS):
        yield (
            f"SLUICE_ADMIN_PORT={admin_port}: must differ from SLUICE_PORT={port}, "
            "the two listeners cannot share one"
        )


def own_address_problems(
    urls: Iterable[str], host: str, port: int, admin_host: str, admin_port: int
) -> Iterator[str]:
    """A gateway in front of itself looks healthy, and each of its requests waits for the next."""
    listeners = (("SLUICE_PORT", host, port), ("SLUICE_ADMIN_PORT", admin_host, admin_port))
    for url in urls:
        engine = urlsplit(url)
        engine_port = engine.port or _USUAL_PORTS.get(engine.scheme)
        for variable, own_host, own_port in listeners:
            if engine_port == own_port and _meet(engine.hostname, own_host):
                yield (
                    f"SLUICE_UPSTREAM_URLS={url}: is where this gateway itself listens "
                    f"({variable}={own_port}); it must be where the engine does"
                )


def _meet(called: str | None, listening: str) -> bool:
    """As far as it can be told without a lookup."""
    return called == listening or {called, listening} <= _THIS_MACHINE


def header_problems(priority_header: str, tenant_header: str | None) -> Iterator[str]:
    if priority_header == tenant_header:
        yield (
            f"SLUICE_TENANT_HEADER={tenant_header}: must differ from "
            f"SLUICE_PRIORITY_HEADER={priority_header}, one header cannot say both"
        )


def tenant_cap_problems(tenant_max_in_flight: int | None, max_in_flight: int) -> Iterator[str]:
    """`max_in_flight` is 0 when it is missing, which is said elsewhere."""
    if tenant_max_in_flight is not None and 0 < max_in_flight < tenant_max_in_flight:
        yield (
            f"SLUICE_TENANT_MAX_IN_FLIGHT={tenant_max_in_flight}: must be at most "
            f"SLUICE_MAX_IN_FLIGHT={max_in_flight}, or it never holds anybody back"
        )


def worker_problems(workers: int, limit_is_shared: bool) -> Iterator[str]:
    if workers > 1 and not limit_is_shared:
        yield (
            f"SLUICE_WORKERS={workers}: needs SLUICE_REDIS_URL, through which several processes "
            "hold one limit; without it each would have a limit of its own"
        )


def tenant_weight_problems(
    weighted: Iterable[str], tenant_header: str | None, key_names: Collection[str]
) -> Iterator[str]:
    """Without a header, tenants are the names of the client keys, all of which are known here."""
    strangers = [name for name in weighted if name not in key_names]
    if tenant_header is not None or not strangers:
        return
    named = ", ".join(map(repr, strangers))
    if key_names:
        yield (
            f"SLUICE_TENANT_WEIGHTS: {named} must be the name of a client key, "
            "for tenants are those while SLUICE_TENANT_HEADER is not set"
        )
    else:
        yield (
            f"SLUICE_TENANT_WEIGHTS: {named} is nobody's name while neither SLUICE_API_KEYS "
            "nor SLUICE_TENANT_HEADER, one of which must be set, tells tenants apart"
        )
