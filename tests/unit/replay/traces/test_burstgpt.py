"""BurstGPT in its three forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.traces.read import read_trace

if TYPE_CHECKING:
    from pathlib import Path

_FORMS = {
    "one": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,400,10,410,Conversation log\n45,GPT-4,80,0,80,API log\n"
        "118.5,GPT-4,40,2,42,API log\n"
    ),
    "three": (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens\n"
        "5,1,2,ChatGPT,400,10\n45,,3,GPT-4,80,0\n118.5,2,1,GPT-4,40,2\n"
    ),
}


@pytest.mark.parametrize("form", list(_FORMS))
def test_requests_that_failed_are_left_out_and_counted(tmp_path: Path, form: str) -> None:
    path = tmp_path / "b.csv"
    path.write_text(_FORMS[form])
    trace = read_trace(path)
    assert trace.format == "burstgpt"
    assert trace.arrivals == (Arrival(0.0, 400, 10), Arrival(113.5, 40, 2))
    assert trace.notes == ("1 requests that failed when it was recorded are left out",)
