"""Defaults that follow from other settings, or from where the process runs.

`data` has the fields that are declared before, all of them sound.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any, Literal


def share_of_max_num_seqs(data: dict[str, Any]) -> int:
    if data["max_num_seqs"] is None:
        return 0  # refused where the settings are checked together, in words
    return max(1, int(data["max_num_seqs"] * Decimal(str(data["headroom"]))))


def seats_of_all_upstreams(data: dict[str, Any]) -> int:
    return int(data["max_in_flight"]) * len(data["upstream_urls"])


def console_on_a_terminal() -> Literal["console", "json"]:
    return "console" if sys.stderr.isatty() else "json"
