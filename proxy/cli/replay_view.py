"""What `sluice replay` shows: counts while it runs, figures when it is over."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from proxy.replay.outcome import Fate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rich.console import Console

    from proxy.replay.client.tally import Tally
    from proxy.replay.percentiles import Percentiles
    from proxy.replay.result import ReplayResult

# Drawing takes milliseconds of the thread that plays: twice a second is enough to look at.
_EVERY_S = 0.5


@asynccontextmanager
async def progress_shown(
    console: Console, tally: Tally, clock: Callable[[], float], duration_s: float, planned: int
) -> AsyncIterator[None]:
    """On a terminal; elsewhere nothing."""
    columns = (BarColumn(bar_width=20), TextColumn("{task.description}"))
    with Progress(
        *columns, console=console, auto_refresh=False, disable=not console.is_terminal
    ) as bars:
        bar = bars.add_task("", total=duration_s)

        async def redraw() -> None:
            while True:
                at_s = max(0.0, clock())
                shown = counts_line(tally, at_s, duration_s, planned)
                bars.update(bar, completed=min(at_s, duration_s), description=shown)
                bars.refresh()
                await asyncio.sleep(_EVERY_S)

        drawing = asyncio.create_task(redraw())
        try:
            yield
        finally:
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await drawing


def counts_line(tally: Tally, at_s: float, duration_s: float, planned: int) -> str:
    fates = tally.fates
    parts = [
        f"{at_s:.0f}/{duration_s:.0f} s",
        f"offered {tally.offered}/{planned}",
        f"running {tally.running}",
        f"good {tally.good}",
        f"shed {fates[Fate.SHED]}",
        f"retries {tally.retries}",
    ]
    parts += [f"{fate} {fates[fate]}" for fate in (Fate.FAILED, Fate.ABANDONED) if fates[fate]]
    return "  ".join(parts)


def result_table(result: ReplayResult) -> Table:
    table = Table(title=f"{result.offered} requests, {result.duration_s:.0f} s of arrivals")
    table.add_column("")
    for name in ("p50", "p90", "p95", "p99", "mean"):
        table.add_column(name, justify="right")
    for label, times in (
        ("time to first token, s", result.ttft_s),
        ("time per output token, s", result.tpot_s),
        ("between chunks, s", result.itl_s),
        ("whole answer, s", result.e2e_s),
        ("generator late by, s", result.generator_lag_s),
    ):
        table.add_row(label, *_cells(times))
    return table


def result_lines(result: ReplayResult) -> list[str]:
    ends = f"completed {result.completed}, good {result.good}, shed {result.shed}"
    speed = (
        f"throughput {result.throughput_tokens_per_s:.0f} tokens/s, "
        f"{result.amplification:.2f} tries a request"
    )
    return [
        f"{ends}, failed {result.failed}, abandoned {result.abandoned}",
        f"goodput {result.goodput_per_s:.2f} requests/s, {speed}",
        *_counted("statuses", result.statuses),
        *_counted("refusals", result.refusals),
    ]


def _counted(name: str, counts: dict[str, int]) -> list[str]:
    listed = ", ".join(f"{key} x {count}" for key, count in counts.items())
    return [f"{name}: {listed}"] if listed else []


def _cells(times: Percentiles) -> list[str]:
    values = (times.p50, times.p90, times.p95, times.p99, times.mean)
    return ["-" if value is None else f"{value:.3f}" for value in values]
