"""The settings that may be changed while the gateway runs: what they are now, and who is told.

A change is judged by the rules of the start, in their words (proxy/settings.py). It is written
nowhere: the next start has what the environment says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from proxy.config import problem_lines, variable_name
from proxy.edge.live_changes import Change, ImpossibleChangeError, LiveValue
from proxy.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

CHANGEABLE = ("max_in_flight", "queue_timeout", "shadow")

# Those, and what they are judged together with; a test holds it against the rules. No file that a
# setting names is read again.
_JUDGED = frozenset({*CHANGEABLE, "max_num_seqs", "headroom", "tenant_max_in_flight"})


class _Told(Settings):
    """Read from nowhere: what it is given is all there is."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the hook's signature
        init_settings: PydanticBaseSettingsSource,
        *_others: PydanticBaseSettingsSource,
        **_named: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


class LiveSettings:
    """`now` is a value; whoever acts on it is told of the next one with on_change()."""

    def __init__(self, at_start: Settings) -> None:
        self.now = at_start
        self._at_start = at_start
        self._adopters: list[Callable[[Settings], None]] = []

    def on_change(self, adopt: Callable[[Settings], None]) -> None:
        self._adopters.append(adopt)

    def places(self, engines: int) -> int:
        """How many may wait in front of so many engines, now."""
        return self.now.places(engines)

    def values(self) -> list[LiveValue]:
        return [
            LiveValue(
                field,
                variable_name(field),
                getattr(self.now, field),
                getattr(self._at_start, field),
            )
            for field in CHANGEABLE
        ]

    def schemas(self) -> dict[str, dict[str, Any]]:
        """What each may be, whatever the others are; by the rules of the settings."""
        return {
            field: TypeAdapter(Settings.model_fields[field].rebuild_annotation()).json_schema()
            for field in CHANGEABLE
        }

    def change(self, wanted: Mapping[str, object]) -> list[Change]:
        """See proxy.edge.live_changes.Live."""
        written = {field: self._as_written(field, value) for field, value in wanted.items()}
        judged = self._judge(written)
        before = self.now
        self.now = before.model_copy(update={field: getattr(judged, field) for field in written})
        changes = [
            Change(variable_name(field), getattr(before, field), getattr(self.now, field))
            for field in written
            if getattr(before, field) != getattr(self.now, field)
        ]
        if changes:
            for adopt in self._adopters:
                adopt(self.now)
        return changes

    def _as_written(self, field: str, value: object) -> object:
        """As it would stand in the environment, where true is no number."""
        if field not in CHANGEABLE:
            known = ", ".join(CHANGEABLE)
            raise ImpossibleChangeError(f"{field[:64]!r} is not one of what can change: {known}")
        if value is None:
            return getattr(self._at_start, field)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (int, float, str)):
            return str(value)
        raise ImpossibleChangeError(f"{variable_name(field)}: must be one value, not several")

    def _judge(self, wanted: Mapping[str, object]) -> Settings:
        given = {field: getattr(self.now, field) for field in _JUDGED & self.now.model_fields_set}
        try:
            return _Told(**{**given, **wanted})
        except ValidationError as error:
            raise ImpossibleChangeError("\n".join(problem_lines(error))) from None
