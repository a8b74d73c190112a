"""Reads one key of a `config.json` under any of the names that it has had."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.vllm.launch_plan.problem import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class ConfigFields:
    """One object of the file; `place` is how a complaint names it. Null counts as absent."""

    values: Mapping[str, Any]
    place: str

    def has(self, *names: str) -> bool:
        return self._found(names) is not None

    def raw(self, *names: str) -> object:
        found = self._found(names)
        return None if found is None else self.values[found]

    def whole(self, *names: str) -> int:
        """A whole number above 0. Raises when none of the names is there."""
        value = self.whole_or_none(*names)
        if value is None:
            others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
            raise PlanError(f"{self.place}: no such key: {names[0]}{others}")
        return value

    def whole_or_none(self, *names: str) -> int | None:
        """A whole number above 0; some files write 0 for what a model does not have."""
        name = self._found(names)
        if name is None:
            return None
        value = self.values[name]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise PlanError(f"{self.place}: {name} is {_shown(value)}, not a whole number above 0")
        return value or None

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise PlanError(f"{self.place}: {name} is {_shown(value)}, not true or false")
        return value

    def text(self, *names: str) -> str | None:
        name = self._found(names)
        if name is None:
            return None
        value = self.values[name]
        if not isinstance(value, str):
            raise PlanError(f"{self.place}: {name} is {_shown(value)}, not a text")
        return value

    def object(self, *names: str) -> ConfigFields | None:
        name = self._found(names)
        if name is None:
            return None
        value = self.values[name]
        if not isinstance(value, dict):
            raise PlanError(f"{self.place}: {name} is {_shown(value)}, not an object")
        return ConfigFields(value, f"{self.place}: {name}")

    def items(self, name: str) -> list[Any] | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise PlanError(f"{self.place}: {name} is {_shown(value)}, not a list")
        return value

    def over(self, defaults: Mapping[str, Any]) -> ConfigFields:
        """These fields, and the defaults where they say nothing."""
        told = {name: value for name, value in self.values.items() if value is not None}
        return ConfigFields({**defaults, **told}, self.place)

    def _found(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if self.values.get(name) is not None), None)


def parse_config(text: str, place: str) -> ConfigFields:
    """Raises PlanError when the text is no JSON object."""
    try:
        values = json.loads(text)
    except RecursionError:
        raise PlanError(f"{place}: not JSON: nested too deeply") from None
    except ValueError as error:
        raise PlanError(f"{place}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise PlanError(f"{place}: not a JSON object, as a config.json is")
    return ConfigFields(values, place)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
