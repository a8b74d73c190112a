"""Hosts of their own on one machine: network namespaces, joined by links that can be cut.

with hosts("store", "a", "b") as (store, a, b):
    link = Link(a, store)       # a reaches the store at link.far
    link.cut()                  # from now on packets vanish, and nobody is told
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of those that are for tests of networks (RFC 2544), and nobody else's.
_HERE = "198.19.0.1"
_numbers = count(1)


@dataclass(frozen=True)
class Host:
    """`address` is where this process reaches it; it reaches this process at `here`."""

    name: str
    number: int

    @property
    def address(self) -> str:
        return f"198.19.{self.number}.2"

    @property
    def here(self) -> str:
        return _HERE

    @property
    def run_by(self) -> tuple[str, ...]:
        """Put in front of a command that shall run there."""
        return ("ip", "netns", "exec", self.name)


@dataclass
class Link:
    """Between two hosts, for nothing else."""

    near: Host
    other: Host
    number: int = field(default_factory=lambda: next(_numbers))

    def __post_init__(self) -> None:
        ends = (self.near, f"l{self.number}n", "2"), (self.other, f"l{self.number}f", "1")
        (near, near_end, _), (other, other_end, _) = ends
        _ip("link", "add", near_end, "netns", near.name, "type", "veth",
            "peer", "name", other_end, "netns", other.name)  # fmt: skip
        for host, end, last in ends:
            _ip("-n", host.name, "addr", "add", f"198.18.{self.number}.{last}/24", "dev", end)
            _ip("-n", host.name, "link", "set", end, "up")

    @property
    def far(self) -> str:
        """The address of the other one."""
        return f"198.18.{self.number}.1"

    def cut(self) -> None:
        _ip("-n", self.other.name, "link", "set", f"l{self.number}f", "down")

    def mend(self) -> None:
        _ip("-n", self.other.name, "link", "set", f"l{self.number}f", "up")


@contextlib.contextmanager
def hosts(*names: str) -> Iterator[list[Host]]:
    """Skips the test where this user may not have any."""
    if shutil.which("ip") is None:
        pytest.skip("needs ip: apt-get install iproute2")
    made: list[Host] = []
    try:
        for name in names:
            host = Host(f"sluice-{os.getpid()}-{name}", next(_numbers))
            try:
                _ip("netns", "add", host.name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespace may be made here: {error.stderr.strip()}")
            made.append(host)
            _reach(host)
        yield made
    finally:
        for host in made:
            _ip("netns", "del", host.name)


def _reach(host: Host) -> None:
    here, there = f"slc{os.getpid()}-{host.number}"[:15], "home"
    _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", host.name)
    _ip("addr", "add", f"{_HERE}/32", "dev", here)
    _ip("link", "set", here, "up")
    _ip("route", "add", f"{host.address}/32", "dev", here, "src", _HERE)
    _ip("-n", host.name, "link", "set", "lo", "up")
    _ip("-n", host.name, "addr", "add", f"{host.address}/32", "dev", there)
    _ip("-n", host.name, "link", "set", there, "up")
    _ip("-n", host.name, "route", "add", f"{_HERE}/32", "dev", there)


def _ip(*words: str) -> None:
    subprocess.run(  # noqa: S603 - a test's own command
        ["ip", *words],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    )
