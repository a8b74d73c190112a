"""From a host name to the engines behind it: one for each of its addresses.

Names last: an engine keeps the name that it came with for as long as its address is there. So the
one that was alone keeps the plain URL when a second one joins it, and of two the one that remains
keeps its name with the address in it. An engine that takes another name would be another one to
everybody: its running requests would be drained for nothing, its metrics would begin anew.

Names that last depend on what was seen before. Gateways that share a limit have seen different
things, and must call the same engine the same: theirs are by address, always.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from proxy.upstream.address import UpstreamAddress


def is_name(host: str, own_host: str = "") -> bool:
    """Whether a host may be several. An IP address is one, and so is this machine, which has an
    address for each of its networks: `localhost`, or `own_host`."""
    bare = host.removesuffix(".").lower()
    if bare in ("localhost", own_host.removesuffix(".").lower()) or bare.endswith(".localhost"):
        return False
    try:
        ip_address(bare)
    except ValueError:
        return True
    return False


def one_family(ips: Iterable[str]) -> list[str]:
    """The IPv4 addresses, or the IPv6 ones where there are no others: an engine with both is one.

    Each once, in order. Without those that are good for one network card only (`fe80::1%eth0`).
    """
    found = [ip_address(ip) for ip in set(ips) if "%" not in ip]
    version = min((ip.version for ip in found), default=4)
    return [str(ip) for ip in sorted(ip for ip in found if ip.version == version)]


def engines_behind(
    address: UpstreamAddress,
    ips: Collection[str],
    before: Sequence[UpstreamAddress] = (),
    *,
    by_address: bool = False,
) -> tuple[UpstreamAddress, ...]:
    """The engines at a URL whose host has these addresses now, given those of `before`.

    `by_address`: the address is in the name of one that is alone, too.
    """
    staying = {engine.ip: engine for engine in before if engine.ip in ips}
    several = by_address or len(ips) > 1
    return tuple(staying.get(ip) or address.at(ip, one_of_several=several) for ip in ips)
