"""What was changed while the gateway runs, as its parent passes it on to every worker.

All of it each time: a worker that is started next week is told once, and is like the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from proxy.live_settings import CHANGEABLE

if TYPE_CHECKING:
    from proxy.live_control import LiveControl
    from proxy.live_settings import LiveSettings
    from proxy.settings import Settings
    from proxy.workers.roster import Roster


@dataclass(frozen=True, slots=True)
class Changes:
    """`values` of the settings that can change, as they are now; `draining`: for a while."""

    values: dict[str, int | float | bool] = field(default_factory=dict)
    draining: bool = False

    def written(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def read(cls, written: bytes) -> Changes:
        """Raises msgspec.ValidationError for anything else."""
        return msgspec.msgpack.decode(written, type=cls)

    def adopted_by(self, control: LiveControl) -> None:
        """In a worker. It judges by the rules that the parent has judged by."""
        control.live.change(self.values)
        if self.draining != control.is_on:
            control.switch(on=self.draining)


class ChangesOfAll:
    """The parent's side: passes changes on. Also the switch of the drain that may be taken back, as
    proxy.edge.live_changes.DrainSwitch has it."""

    def __init__(self, live: LiveSettings, roster: Roster) -> None:
        self._values: dict[str, int | float | bool] = {}
        self._roster = roster
        live.on_change(self._adopt)

    def _adopt(self, settings: Settings) -> None:
        self._values = {name: getattr(settings, name) for name in CHANGEABLE}
        self._roster.change(Changes(self._values, self._roster.paused))

    @property
    def is_on(self) -> bool:
        return self._roster.draining

    @property
    def running(self) -> int:
        return sum(report.running for report in self._roster.reports)

    def switch(self, *, on: bool) -> bool:
        """A worker that ends on its own is not kept from it."""
        if self._roster.stopping:
            return on
        self._roster.change(Changes(self._values, on))
        return True
