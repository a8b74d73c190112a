"""Values that are sound alone and not together. Each fault is one line that names the variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})


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


def listener_problems(host: str, port: int, admin_host: str, admin_port: int) -> Iterator[str]:
    hosts = {host, admin_host}
    if port == admin_port != 0 and (len(hosts) == 1 or hosts & _EVERY_ADDRESS):
        yield (
            f"SLUICE_ADMIN_PORT={admin_port}: must differ from SLUICE_PORT={port}, "
            "the two listeners cannot share one"
        )
