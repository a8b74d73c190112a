from __future__ import annotations

import json
import re

from proxy.vllm.launch_plan.compose_file import compose_file
from proxy.vllm.launch_plan.launch_flags import launch_words
from proxy.vllm.launch_plan.plan import make_plan
from tests.support.plan_requests import request


def test_the_engine_gets_the_words_of_the_command() -> None:
    plan = make_plan(request(tensor=2))
    words = [
        json.loads(word)
        for word in re.findall(r"^      - (\".*\")$", compose_file(plan), re.MULTILINE)
    ]
    expected = [*launch_words(plan)[2:], "--host", "0.0.0.0", "--port", "8000"]
    assert words[: len(expected)] == expected


def test_the_gateway_gets_its_settings() -> None:
    plan = make_plan(request())
    file = compose_file(plan)
    for name, value in plan.limits.environment().items():
        assert f'      {name}: "{value}"\n' in file


def test_the_engine_has_its_cards_and_no_port_to_the_outside() -> None:
    file = compose_file(make_plan(request("llama-3-70b", tensor=4)))
    assert "count: 4" in file
    assert "8000:8000" not in file


def test_indentation_is_even_and_without_tabs() -> None:
    lines = compose_file(make_plan(request())).splitlines()
    assert all((len(line) - len(line.lstrip(" "))) % 2 == 0 and "\t" not in line for line in lines)
