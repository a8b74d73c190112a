from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.config_fields import ConfigFields, parse_config
from proxy.vllm.launch_plan.problem import PlanError


def fields(**values: object) -> ConfigFields:
    return ConfigFields(values, "config.json")


def test_the_first_name_that_is_there_is_read() -> None:
    assert fields(n_layer=12).whole("num_hidden_layers", "n_layer") == 12


def test_null_is_absent() -> None:
    assert fields(head_dim=None).whole_or_none("head_dim") is None


def test_a_missing_key_is_named_with_its_other_names() -> None:
    with pytest.raises(PlanError, match=r"config.json: no such key: hidden_size \(or n_embd\)"):
        fields().whole("hidden_size", "n_embd")


@pytest.mark.parametrize("value", ["32", True, -1, 1.5, [1]])
def test_what_is_no_whole_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(PlanError, match=r"num_hidden_layers is .*, not a whole number above 0"):
        fields(num_hidden_layers=value).whole("num_hidden_layers")


def test_kinds_are_checked() -> None:
    wrong = fields(a=1, b="x", c=2, d={})
    for read in (
        lambda: wrong.text("a"),
        lambda: wrong.flag("b", default=False),
        lambda: wrong.object("c"),
        lambda: wrong.items("d"),
    ):
        with pytest.raises(PlanError, match=r"^config.json: \w is "):
            read()


def test_fields_stand_before_defaults() -> None:
    merged = fields(a=1, b=None).over({"a": 9, "b": 8})
    assert (merged.whole("a"), merged.whole("b")) == (1, 8)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "not JSON"), ("[1]", "not a JSON object"), ("[" * 100_000, "not JSON")]
)
def test_a_file_that_is_no_json_object_gets_one_line(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=f"^x.json: {said}") as error:
        parse_config(text, "x.json")
    assert "\n" not in str(error.value)
