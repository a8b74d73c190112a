"""Carries what is changed while the gateway runs to where it acts. No request is broken off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.admission.controller import AdmissionController
    from proxy.edge.drain import Drain
    from proxy.engine_fleet import EngineFleet
    from proxy.live_settings import LiveSettings
    from proxy.settings import Settings


class LiveControl:
    """Also the switch of the drain that may be taken back. Whatever is changed in `live` acts."""

    def __init__(
        self,
        live: LiveSettings,
        controller: AdmissionController,
        fleet: EngineFleet,
        drain: Drain,
    ) -> None:
        live.on_change(self._adopt)
        self.live = live
        self._controller = controller
        self._fleet = fleet
        self._drain = drain

    def _adopt(self, settings: Settings) -> None:
        self._controller.places_changed()
        self._fleet.adopt(settings)  # before the mode changes: shadow mode ends at the new limit
        self._controller.set_shadow(settings.shadow)

    @property
    def is_on(self) -> bool:
        return self._drain.begun

    @property
    def running(self) -> int:
        return self._drain.running

    def switch(self, *, on: bool) -> bool:
        """See proxy.edge.live_changes.DrainSwitch."""
        if on:
            self._drain.pause()
            self._controller.drain()
        elif not self._drain.resume():
            return False
        else:
            self._controller.undrain()
        return True
