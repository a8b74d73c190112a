"""How many connections each listener takes: what is set, or what the system's limit of open files
leaves once the engines, the other listener and the rest of the process have theirs."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Final

from proxy.cli.soundness import SPARE_DESCRIPTORS
from proxy.edge.connection_cap import ConnectionCap, most_answered

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.edge.connection_cap import Bound
    from proxy.settings import Settings

# Prometheus, a few probes, and open status pages, each of which is one.
_MOST_ADMIN: Final = 256
_FEWEST_PUBLIC: Final = 16


def public_cap(
    settings: Settings, refused: Callable[[Bound], None], to_engines: Callable[[], int]
) -> ConnectionCap:
    """Of this process: where there are several, each has its part of what is set. `to_engines`: as
    many connections there may be to the engines that there are now; they come and go."""
    most, per_address = settings.max_connections, settings.max_connections_per_address
    return ConnectionCap(
        _most_public(to_engines) if most is None else settings.of_a_worker(most),
        per_address and settings.of_a_worker(per_address),
        refused,
    )


def admin_cap(refused: Callable[[Bound], None] = lambda _: None) -> ConnectionCap:
    """Whoever reaches the admin listener must not keep out those whom it is for for ever, nor take
    what the public one needs."""
    return ConnectionCap(_most_admin(_open_files()), None, refused)


def most_to_engines(public: ConnectionCap) -> Callable[[], int] | None:
    """As many connections, idle ones included, as the clients of `public` leave room for now; a
    few also where more clients are allowed than fit, or none would ever be used twice."""
    files = _open_files()
    if files is None:
        return None
    both = files - SPARE_DESCRIPTORS - _most_admin(files)

    def most() -> int:
        clients = public.max_connections or 0
        return max(both - clients - public.max_answered, both // 8)

    return most


def _most_public(to_engines: Callable[[], int]) -> Callable[[], int] | None:
    """Half of what there is for clients and engines, or more where the engines need less: no client
    has more than one connection to an engine at a time."""
    files = _open_files()
    if files is None:
        return None
    without_engines = files - SPARE_DESCRIPTORS - _most_admin(files)
    half = without_engines // 2

    def most() -> int:
        left = without_engines - to_engines()
        return max(half - most_answered(half), left - most_answered(left), _FEWEST_PUBLIC)

    return most


def _most_admin(files: int | None) -> int:
    return _MOST_ADMIN if files is None else min(_MOST_ADMIN, files // 8)


def _open_files() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
