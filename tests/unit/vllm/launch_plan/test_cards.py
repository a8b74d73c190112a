from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.cards import GIB, parse_card, parse_size
from proxy.vllm.launch_plan.problem import PlanError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100", "H100"),
        ("h100-80gb", "H100"),
        ("A100-80G", "A100-80G"),
        ("NVIDIA A100-SXM4-80GB", "A100-80G"),
        ("A100", "A100-80G"),
        ("a100-40gb", "A100-40G"),
        ("L40S", "L40S"),
        ("4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA L4", "L4"),
    ],
)
def test_a_card_is_known_by_its_names(text: str, name: str) -> None:
    assert parse_card(text).name == name


def test_a_size_is_taken_as_written() -> None:
    assert parse_card("80GiB").memory == 80 * GIB
    assert parse_card("24 GB").memory == 24 * 10**9
    assert parse_card("80GiB").bandwidth is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("80", "'80': no unit; write it as 80GiB"),
        ("80 bananas", "'80 bananas': not a size"),
        ("0GiB", "a size above 0"),
        ("H101", "did you mean H100"),
        ("-5GiB", "no size, as 80GiB, and no card"),
    ],
)
def test_what_is_neither_gets_one_line(text: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        parse_card(text)
    assert said in str(error.value)


def test_a_size_names_its_option() -> None:
    with pytest.raises(PlanError, match=r"^--weights 'x': not a size"):
        parse_size("x", "--weights")
