"""What is shown while a replay runs and when it is over."""

from __future__ import annotations

import asyncio
import io

from rich.console import Console

from proxy.cli.replay_view import counts_line, progress_shown, result_lines, result_table
from proxy.replay.client.tally import Tally
from proxy.replay.request_times import Objective
from tests.support.replay_records import abandoned, completed, refused, result_of


def _tally() -> Tally:
    tally = Tally(Objective())
    for _ in range(3):
        tally.started()
    tally.ended(completed(0.0), None)
    tally.ended(abandoned(0.0), None)
    return tally


def test_the_counts_add_up() -> None:
    assert counts_line(_tally(), 3.2, 60.0, 9) == (
        "3/60 s  offered 3/9  running 1  good 1  shed 0  retries 0  abandoned 1"
    )


def test_a_terminal_sees_progress_and_a_pipe_sees_none() -> None:
    async def shown(console: Console) -> None:
        async with progress_shown(console, _tally(), lambda: 1.0, 60.0, 9):
            await asyncio.sleep(0)

    for terminal in (True, False):
        screen = io.StringIO()
        asyncio.run(shown(Console(file=screen, force_terminal=terminal, width=120)))
        assert ("offered 3/9" in screen.getvalue()) is terminal


def test_the_table_and_the_lines_tell_the_result() -> None:
    result = result_of(completed(0.0), refused(1.0, tries=3))
    assert result_table(result).row_count == 5
    assert result_lines(result) == [
        "completed 1, good 1, shed 1, failed 0, abandoned 0",
        "goodput 0.10 requests/s, throughput 0 tokens/s, 2.00 tries a request",
        "statuses: 503 x 3, 200 x 1",
        "refusals: queue_full x 3",
    ]
