from __future__ import annotations

import json

from proxy.shared_limit.store import Granted, Overdue, Renewal


def renewal(**fields: object) -> Renewal:
    given: dict[str, object] = {
        "gateway": "a",
        "seq": 3,
        "keep": 2,
        "want": 5,
        "widest": 1,
        "waited_ms": 40,
        "limit": 8,
        **fields,
    }
    return Renewal(**given)  # type: ignore[arg-type]


def test_a_renewal_is_written_with_all_it_says() -> None:
    said = json.loads(renewal(known=("a", "b"), gone={"b": 7}).as_json())
    assert said == {
        "gateway": "a",
        "seq": 3,
        "keep": 2,
        "want": 5,
        "widest": 1,
        "waited_ms": 40,
        "limit": 8,
        "known": ["a", "b"],
        "gone": {"b": 7},
        "leaves": False,
    }


def test_an_answer_is_read_as_the_script_writes_it() -> None:
    text = (
        b'{"held":4,"target":5,"limit":8,"members":["a","b"],"overdue":{"b":[7,3500]},'
        b'"in_grace":false}'
    )
    assert Granted.from_json(text) == Granted(
        held=4,
        target=5,
        limit=8,
        members=("a", "b"),
        overdue={"b": Overdue(7, 3500)},
        in_grace=False,
    )


def test_nobody_is_an_empty_object_where_lua_knows_no_lists() -> None:
    text = '{"held":0,"target":0,"limit":0,"members":{},"overdue":{},"in_grace":false}'
    answer = Granted.from_json(text)
    assert answer is not None
    assert answer.members == ()


def test_the_answer_to_a_renewal_that_came_too_late_is_none() -> None:
    assert Granted.from_json("{}") is None
