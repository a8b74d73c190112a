from __future__ import annotations

import pytest

from proxy.vllm.memory_curve.cells import MIB
from proxy.vllm.memory_curve.columns import cells_of, guess, header_of

T0, T1 = "2026/12/02 14:26:32.123", "2026/12/02 14:26:33.124"


def test_a_header_names_the_columns_in_any_order() -> None:
    columns = header_of("utilization.gpu [%], memory.used [MiB], index, timestamp")
    assert columns is not None
    assert (columns.utilization, columns.used, columns.index, columns.time) == (0, 1, 2, 3)
    assert columns.names_gpus


def test_a_header_without_units_counts_in_mib() -> None:
    columns = header_of("timestamp,memory.used,memory.total")
    assert columns is not None
    assert (columns.used_unit, columns.total_unit, columns.width) == (MIB, MIB, 3)


def test_the_columns_of_a_recording_are_extra() -> None:
    columns = header_of("timestamp, memory.used [MiB], unix_time_s, engine.up, sluice.in_flight")
    assert columns is not None
    assert dict(columns.extra) == {"engine.up": 3, "sluice.in_flight": 4}
    assert columns.unix_time == 2


def test_a_spreadsheet_may_have_changed_the_delimiter() -> None:
    columns = header_of("timestamp;memory.used [MiB];utilization.gpu [%]")
    assert columns is not None
    assert (columns.delimiter, columns.used) == (";", 1)


@pytest.mark.parametrize(
    "line",
    [
        "arrived_at,num_prefill_tokens",
        "$ nvidia-smi --query-gpu=timestamp,memory.used,index",
        "INFO memory.py: low, again",
        f"{T0}, 1 MiB, 2 %",
        "",
    ],
)
def test_other_lines_are_no_header(line: str) -> None:
    assert header_of(line) is None


def test_a_quoted_cell_may_hold_the_delimiter() -> None:
    assert cells_of('0, "A, B", 5 MiB', ",") == ["0", "A, B", "5 MiB"]


@pytest.mark.parametrize(
    ("rows", "places"),
    [
        # time, index, used, total, utilization
        ([[T0, "20000 MiB", "87 %"], [T1, "20100 MiB", "90 %"]], (0, None, 1, None, 2)),
        ([["87", "20000", T0], ["90", "20100", T1]], (2, None, 1, None, 0)),
        ([[T0, "20000", "24576"], [T1, "20100", "24576"]], (0, None, 1, 2, None)),
        ([[T0, "24576", "20000"], [T1, "24576", "20100"]], (0, None, 2, 1, None)),
        ([["0", T0, "20000", "5"], ["1", T0, "300", "7"]], (1, 0, 2, None, 3)),
        ([["20000 MiB"], ["20100 MiB"]], (None, None, 0, None, None)),
    ],
)
def test_without_a_header_the_rows_tell(
    rows: list[list[str]], places: tuple[int | None, ...]
) -> None:
    columns = guess(rows)
    assert columns is not None
    seen = (columns.time, columns.index, columns.used, columns.total, columns.utilization)
    assert seen == places


@pytest.mark.parametrize(
    "rows", [[], [["5", "7"]], [["20000", "3000"]], [[T0, "1000", "2000", "3000"]], [["a", "b"]]]
)
def test_what_rows_do_not_tell_is_not_guessed(rows: list[list[str]]) -> None:
    assert guess(rows) is None
