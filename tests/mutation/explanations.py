"""Why some mutants survive: explained.toml beside this file, a table for each reason.

    [[explained]]
    module = "gate"
    function = "Gate.decide"
    changes = ["a < b -> a <= b"]
    why = "..."

`function` is left out for what stands outside of any. A change is named as the runner names it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutation.mutants import Mutant

EXPLAINED = Path(__file__).with_name("explained.toml")


@dataclass(frozen=True, slots=True)
class Explanation:
    module: str
    function: str
    change: str
    why: str

    def explains(self, mutant: Mutant) -> bool:
        return (self.module, self.function, self.change) == (
            mutant.module,
            mutant.function,
            mutant.change,
        )


def explanations() -> list[Explanation]:
    tables = tomllib.loads(EXPLAINED.read_text()).get("explained", [])
    return [
        Explanation(one["module"], one.get("function", ""), change, one["why"])
        for one in tables
        for change in one["changes"]
    ]
