from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.openai_api.steps import all_at_once

if TYPE_CHECKING:
    from proxy.openai_api.steps import Steps


def test_all_steps_are_done_and_the_last_one_has_the_result() -> None:
    done = []

    def counting() -> Steps[str]:
        for number in range(3):
            done.append(number)
            yield
        return "counted"

    assert all_at_once(counting()) == "counted"
    assert done == [0, 1, 2]
