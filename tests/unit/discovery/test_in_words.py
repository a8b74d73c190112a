from __future__ import annotations

from proxy.discovery.in_words import listed


def test_a_few_are_all_named() -> None:
    assert listed([]) == ""
    assert listed(["a", 2]) == "a, 2"
    assert listed(range(16)).endswith("14, 15")


def test_of_many_a_few_are_and_the_rest_is_counted() -> None:
    assert listed(range(300)).endswith("14, 15 and 284 more")
