from __future__ import annotations

import ast
import inspect
import os
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies

from proxy.config import Settings, SettingsError, load_settings
from proxy.edge.live_changes import Change, ImpossibleChangeError
from proxy.live_settings import _JUDGED, CHANGEABLE, LiveSettings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("clean_environment")


def live(**given: object) -> LiveSettings:
    values: dict[str, Any] = {"max_num_seqs": 64, **given}
    return LiveSettings(Settings(**values))


def test_before_a_change_all_is_as_at_the_start() -> None:
    values = live().values()
    assert [one.name for one in values] == list(CHANGEABLE)
    assert values[0].variable == "SLUICE_MAX_IN_FLIGHT"
    assert not any(one.is_changed for one in values)


def test_a_change_is_told_with_the_value_before() -> None:
    settings, told = live(), list[Settings]()
    settings.on_change(told.append)
    changes = settings.change({"max_in_flight": 20, "queue_timeout": 2.5, "shadow": False})
    assert changes == [
        Change("SLUICE_MAX_IN_FLIGHT", 57, 20),
        Change("SLUICE_QUEUE_TIMEOUT", 5, 2.5),
    ]
    assert told == [settings.now]
    assert (settings.now.max_in_flight, settings.now.queue_timeout) == (20, 2.5)
    assert [one.name for one in settings.values() if one.is_changed] == [
        "max_in_flight",
        "queue_timeout",
    ]


def test_nothing_new_is_told_to_nobody() -> None:
    settings, told = live(), list[Settings]()
    settings.on_change(told.append)
    assert settings.change({"max_in_flight": 57}) == []
    assert settings.change({}) == []
    assert told == []


def test_null_is_the_value_of_the_start() -> None:
    settings = live()
    settings.change({"max_in_flight": 20, "shadow": True})
    settings.change({"max_in_flight": None})
    assert (settings.now.max_in_flight, settings.now.shadow) == (57, True)


def test_the_queue_follows_the_limit_where_its_length_is_not_set() -> None:
    settings = live()
    settings.change({"max_in_flight": 10})
    assert settings.places(2) == 20
    settings = live(max_queue_depth=7)
    settings.change({"max_in_flight": 10})
    assert settings.places(2) == 7


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_in_flight", 0),
        ("max_in_flight", 64),
        ("max_in_flight", "many"),
        ("max_in_flight", 1.5),
        ("max_in_flight", "1_0"),
        ("queue_timeout", -1),
        ("queue_timeout", "nan"),
        ("shadow", "perhaps"),
    ],
)
def test_what_the_start_would_refuse_is_refused_in_its_words(field: str, value: object) -> None:
    with pytest.raises(SettingsError) as at_start:
        load_settings({"max_num_seqs": 64, field: str(value)})
    settings = live()
    with pytest.raises(ImpossibleChangeError) as while_running:
        settings.change({"queue_timeout": 1, field: value})
    assert str(while_running.value) == str(at_start.value)
    assert settings.now.queue_timeout == 5, "nothing of it was done"


def test_a_limit_below_a_tenants_cap_is_refused() -> None:
    settings = live(tenant_max_in_flight=8)
    with pytest.raises(ImpossibleChangeError, match="SLUICE_TENANT_MAX_IN_FLIGHT=8: must be at"):
        settings.change({"max_in_flight": 7})


def test_true_is_no_number() -> None:
    with pytest.raises(ImpossibleChangeError, match="SLUICE_MAX_IN_FLIGHT=true: must be a whole"):
        live().change({"max_in_flight": True})


WITHIN_BOUNDS = {
    "max_in_flight": strategies.integers(1, 1_000_000),
    "queue_timeout": strategies.floats(0, 86_400) | strategies.integers(0, 86_400),
    "shadow": strategies.booleans() | strategies.sampled_from([0, 1]),
}


def test_what_a_setting_may_be_is_described_with_the_bounds_of_the_start() -> None:
    described = live().schemas()
    assert list(described) == list(CHANGEABLE) == list(WITHIN_BOUNDS)
    assert described["max_in_flight"] == {"type": "integer", "minimum": 1, "maximum": 1_000_000}
    assert described["queue_timeout"] == {"type": "number", "minimum": 0, "maximum": 86_400}


@settings(deadline=None, max_examples=50)
@given(strategies.fixed_dictionaries({}, optional=WITHIN_BOUNDS))
def test_whatever_is_within_the_bounds_and_not_tied_to_others_is_done(
    wanted: dict[str, object],
) -> None:
    changed = live(max_num_seqs=None, max_in_flight=8)
    changed.change(wanted)
    assert {name: getattr(changed.now, name) for name in wanted} == wanted


class Noted(dict[str, Any]):
    """Knows what was looked up in it."""

    def __init__(self, **values: object) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - whatever the settings hold
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> Any:  # noqa: ANN401 - as above
        self.read.add(name)
        return super().get(name, default)


def judged_with_a_changeable_one() -> set[str]:
    """Settings that stand in one rule with one of those, as the rules are written."""
    source = textwrap.dedent(inspect.getsource(Settings._check_together))
    together = set[str]()
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        read = {
            node.attr
            for argument in call.args
            for node in ast.walk(argument)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }
        together |= read if read & set(CHANGEABLE) else set()
    return together


def read_by_a_default() -> set[str]:
    """Settings of which a changeable one is made where it is not set."""
    noted = Noted(max_num_seqs=64, headroom=0.9)
    for field in CHANGEABLE:
        factory: Any = Settings.model_fields[field].default_factory
        if factory is not None:
            factory(noted)
    return noted.read


def test_a_change_is_judged_together_with_all_that_a_rule_ties_it_to() -> None:
    """Whoever adds a rule need not know of the list that this holds."""
    assert judged_with_a_changeable_one() > {"max_num_seqs", "tenant_max_in_flight"}
    assert {*CHANGEABLE} | judged_with_a_changeable_one() | read_by_a_default() == _JUDGED


@pytest.mark.parametrize("name", ["port", "api_keys", "MAX_IN_FLIGHT", ""])
def test_what_cannot_change_is_told_with_what_can(name: str) -> None:
    with pytest.raises(ImpossibleChangeError, match="max_in_flight, queue_timeout, shadow"):
        live().change({name: 1})


def test_a_list_is_no_value() -> None:
    with pytest.raises(ImpossibleChangeError, match="must be one value"):
        live().change({"max_in_flight": [1]})


def test_neither_the_environment_nor_a_file_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a:secret-of-a")
    settings = live(api_keys_file=keys, tenant_weights="a:2", upstream_urls="http://one:8000")
    keys.unlink()
    monkeypatch.setitem(os.environ, "SLUICE_TENANT_MAX_IN_FLIGHT", "50")
    settings.change({"max_in_flight": 10})
    assert settings.now.tenant_max_in_flight is None
    assert list(settings.now.client_keys) == ["a"]
    assert settings.now.upstream_urls == ("http://one:8000",)
