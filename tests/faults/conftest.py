"""What the cells of the matrix share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.edge import listeners
from tests.faults.stand import Stands

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module")
def _limits_on_clients_are_looked_at_often() -> Iterator[None]:
    """20 times a second and not once, so that a cell need not wait for it."""
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(listeners, "_SWEEP_EVERY_S", 0.05)
        yield


@pytest.fixture(scope="module", name="stands")
def _stands() -> Iterator[Stands]:
    stands = Stands()
    try:
        yield stands
    finally:
        stands.close()
