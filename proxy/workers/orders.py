"""What a worker is told at its start, and how it is written down on the way.

By types that are known, each field by its own: whatever is written there, reading it runs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import SecretStr

from proxy.env_values.key_digest import KeyDigest  # noqa: TC001 - msgspec reads the types
from proxy.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Orders:
    """`started_at_s`: of the gateway, on the monotonic clock. `waits_for_seats`: others serve, and
    have seats, so it is not to listen before it has one, or a store that would give it one.

    The settings are those that the parent has read: a worker that is started anew next week is like
    the others, whatever the environment's files say by then.
    """

    settings: Settings
    number: int
    started_at_s: float
    waits_for_seats: bool = False

    def written(self) -> bytes:
        """There are secrets in it."""
        settings = self.settings
        given = sorted(settings.model_fields_set)
        sources = {field: settings.source_of(field) for field in given}
        told = {
            "values": {field: getattr(settings, field) for field in Settings.model_fields},
            "given": given,
            "client_keys": settings.client_keys,
            "sources": {field: one for field, one in sources.items() if one != "default"},
            "number": self.number,
            "started_at_s": self.started_at_s,
            "waits_for_seats": self.waits_for_seats,
        }
        return msgspec.msgpack.encode(told, enc_hook=_as_text)

    @classmethod
    def read(cls, written: bytes) -> Orders:
        """Raises msgspec.DecodeError for anything else."""
        told = msgspec.msgpack.decode(written, type=_Told, dec_hook=_of_text)
        values: Mapping[str, Any] = msgspec.structs.asdict(told.values)
        settings = Settings.model_construct(told.given, **values)
        settings.remember_client_keys(told.client_keys)
        settings.remember_sources(told.sources)
        return cls(settings, told.number, told.started_at_s, told.waits_for_seats)


_Values = msgspec.defstruct(
    "_Values",
    [(name, field.annotation) for name, field in Settings.model_fields.items()],
    forbid_unknown_fields=True,
)


class _Told(msgspec.Struct, forbid_unknown_fields=True):
    values: _Values  # type: ignore[valid-type]  # made of the fields of Settings
    given: set[str]
    client_keys: dict[str, KeyDigest]
    sources: dict[str, Source]
    number: int
    started_at_s: float
    waits_for_seats: bool


def _as_text(value: object) -> str:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value)
    raise NotImplementedError(f"no way to write a {type(value).__name__}")


def _of_text(kind: type, text: str) -> object:
    return kind(text)
