"""How shares of tenants are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.env_values.tenant_weights import LEAST_WEIGHT, MOST_WEIGHT, parse_tenant_weights

NAMES = st.from_regex(r"[!-+\--~]([ -+\--~]{0,20}[!-+\--~])?", fullmatch=True)
WEIGHTS = st.floats(LEAST_WEIGHT, MOST_WEIGHT)


@pytest.mark.parametrize(
    ("written", "pairs"),
    [
        ("gold:3", (("gold", 3.0),)),
        (" gold : 3 , free:.25,", (("gold", 3.0), ("free", 0.25))),
        ("b:1,a:2,B:3", (("b", 1.0), ("a", 2.0), ("B", 3.0))),
        ("urn:org:7:2", (("urn:org:7", 2.0),)),
        ("Team A:1e-3", (("Team A", 0.001),)),
        ("a:1000", (("a", 1000.0),)),
        ("", ()),
    ],
)
def test_entries_are_names_and_weights_in_their_order(
    written: str, pairs: tuple[tuple[str, float], ...]
) -> None:
    assert parse_tenant_weights(written) == pairs


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("gold", "'gold' must be a name and a weight"),
        (":3", "':3' must begin with a name"),
        ("a:1, é:3", "'é:3' must begin with a name"),
        ("x" * 129 + ":1", "must begin with a name"),
        ("gold:", "'gold:' must end in a weight from 0.001 to 1000"),
        ("gold:0", "must end in a weight"),
        ("gold:-1", "must end in a weight"),
        ("gold:1000.1", "must end in a weight"),
        ("gold:0.0009", "must end in a weight"),
        ("gold:many", "must end in a weight"),
        ("gold:nan", "must end in a weight"),
        ("gold:inf", "must end in a weight"),
        ("gold:1_0", "must end in a weight"),
        ("gold:1e-400", "must end in a weight"),
        ("a:1,b:2,a:3", "'a' is there twice"),
    ],
)
def test_the_entry_that_is_wrong_is_named_with_its_fault(written: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_tenant_weights(written)


@pytest.mark.parametrize("value", [3, {"gold": 3}])
def test_anything_but_text_or_pairs_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="comma-separated"):
        parse_tenant_weights(value)


@given(st.dictionaries(NAMES, WEIGHTS, max_size=5))
def test_pairs_that_were_read_are_read_again_as_they_are(weights: dict[str, float]) -> None:
    pairs = tuple(weights.items())
    assert parse_tenant_weights(pairs) == pairs
    assert parse_tenant_weights(",".join(f"{name}:{weight!r}" for name, weight in pairs)) == pairs
