from __future__ import annotations

from proxy.vllm.memory_curve.reader import CurveReader, read_memory_curve
from tests.support.memory_curves import CARD_MIB, HEADER, MIB, curve, stamp


def used_mib(lines: list[str]) -> list[int | None]:
    return [None if s.used is None else s.used // MIB for s in read_memory_curve(lines)]


def test_a_sample_has_its_line_time_and_sizes() -> None:
    _, second = read_memory_curve(curve([20000, 20500]))
    assert (second.line, second.gpu, second.used, second.total) == (
        3,
        0,
        20500 * MIB,
        CARD_MIB * MIB,
    )
    assert second.utilization == 0.87
    assert second.text == f"{stamp(1)}, 20500 MiB, {CARD_MIB} MiB, 87 %"


def test_nvidia_smi_may_be_started_again_into_the_same_file() -> None:
    assert used_mib([*curve([1, 2]), "", *curve([3])]) == [1, 2, 3]


def test_a_file_without_a_header_is_read_all_the_same() -> None:
    assert used_mib(curve([20000, 20500])[1:]) == [20000, 20500]
    bare = [f"{stamp(i)}, {mib}, {load}" for i, (mib, load) in enumerate([(20000, 5), (21000, 99)])]
    assert used_mib(bare) == [20000, 21000]


def test_lines_before_the_header_are_passed_over() -> None:
    greeting = ["$ kubectl exec -it gpu-0 -- nvidia-smi", "Defaulted container, out of: a, b"]
    assert used_mib(greeting + curve([5])) == [5]


def test_what_a_card_does_not_tell_is_not_0() -> None:
    (sample,) = read_memory_curve([HEADER, f"{stamp(0)}, [N/A], [Not Supported], [N/A]"])
    assert (sample.used, sample.total, sample.utilization) == (None, None, None)


def test_used_is_what_is_not_free_where_only_that_is_told() -> None:
    lines = ["timestamp, memory.free [MiB], memory.total [MiB]", f"{stamp(0)}, 1000 MiB, 24000 MiB"]
    assert used_mib(lines) == [23000]


def test_a_cut_row_and_one_run_into_the_next_are_left_out() -> None:
    lines = curve([1, 2, 3])
    lines[2] = lines[2][:30]
    lines[3] += lines[1]
    reader = CurveReader()
    samples = [sample for line in lines for sample in reader.feed(line)] + reader.close()
    assert [sample.used for sample in samples] == [1 * MIB]
    assert (reader.rows, reader.skipped) == (1, 2)


def test_an_unfinished_last_row_counts_where_it_is_whole() -> None:
    reader = CurveReader()
    reader.feed(HEADER)
    (whole,) = reader.close(curve([7])[1])
    assert whole.used == 7 * MIB


def test_a_last_number_that_may_be_cut_does_not_count() -> None:
    reader = CurveReader()
    reader.feed("timestamp, memory.used")
    reader.feed(f"{stamp(0)}, 20000")
    assert [sample.used for sample in reader.close(f"{stamp(1)}, 20")] == [20000 * MIB]


def test_gpus_are_told_apart_by_index_by_identity_or_by_turns() -> None:
    turns = [f"{stamp(i + gpu / 1000)}, {gpu} MiB" for i in range(4) for gpu in range(3)]
    samples = read_memory_curve(["timestamp, memory.used [MiB]", *turns])
    assert [sample.gpu for sample in samples] == [0, 1, 2] * 4
    named = ["timestamp, uuid, memory.used [MiB]", f"{stamp(0)}, GPU-b, 1", f"{stamp(0)}, GPU-a, 1"]
    assert [sample.gpu for sample in read_memory_curve([*named, named[1]])] == [0, 1, 0]
    told = ["index, memory.used [MiB]", "3, 1 MiB", "5, 1 MiB", "3, 2 MiB"]
    assert [(s.gpu, s.at_s) for s in read_memory_curve(told)] == [(3, 0.0), (5, 0.0), (3, 1.0)]


def test_the_clock_set_back_in_autumn_does_not_turn_time_back() -> None:
    lines = [HEADER, *(f"{stamp(s)}, 1 MiB, 2 MiB, 3 %" for s in (0, 1, -3599, -3598))]
    moments = [sample.at_s for sample in read_memory_curve(lines)]
    assert moments == sorted(moments)
    assert moments[-1] - moments[0] < 3


def test_a_recording_tells_of_engine_and_gateway() -> None:
    header = "timestamp, index, memory.used [MiB], unix_time_s, engine.running, sluice.in_flight"
    (sample,) = read_memory_curve([header, f"{stamp(0)}, [N/A], [N/A], 1767225600.5, 3, "])
    assert (sample.at_s, sample.gpu, sample.used) == (1767225600.5, 0, None)
    assert dict(sample.extra) == {"engine.running": 3.0}


def test_a_table_of_something_else_has_no_samples() -> None:
    assert list(read_memory_curve(["a,b,c", "1,2,3", "4,5,6"])) == []
