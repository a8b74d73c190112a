from __future__ import annotations

import json

from proxy.edge.models_page import ModelsPage, differ, merged
from proxy.vllm.served_models import ServedModel


def models(*names: str, **card: object) -> tuple[ServedModel, ...]:
    return tuple(ServedModel(name, None, {"id": name, **card}) for name in names)


def ids(page: bytes) -> list[str]:
    return [card["id"] for card in json.loads(page)["data"]]


def test_engines_differ_only_by_what_they_have_told() -> None:
    assert not differ([])
    assert not differ([models("a")])
    assert not differ([models("a"), models("a"), ()])
    assert not differ([models("a", "b"), models("b", "a")])
    assert differ([models("a"), (), models("a", "b")])


def test_each_model_is_there_once_in_the_order_of_the_engines() -> None:
    page = json.loads(merged([models("b", "a", created=1), (), models("c", "a", created=2)]))
    assert page == {
        "object": "list",
        "data": [
            {"id": "b", "created": 1},
            {"id": "a", "created": 1},
            {"id": "c", "created": 2},
        ],
    }


def test_a_card_is_passed_on_with_all_that_the_engine_says() -> None:
    odd = models("a", permission=[{"id": "\ud800"}], root=None, max_model_len=7)
    (card,) = json.loads(merged([odd]))["data"]
    assert card == odd[0].card


def test_the_page_is_there_while_engines_differ_and_follows_them() -> None:
    served = [models("a"), models("a")]
    page = ModelsPage(lambda: list(served))
    assert page.page() is None
    served[1] = models("b")
    first = page.page()
    assert first is not None
    assert ids(first) == ["a", "b"]
    assert page.page() is first  # not made again
    served.append(models("c"))
    assert ids(page.page() or b"") == ["a", "b", "c"]
    del served[1:]
    assert page.page() is None
