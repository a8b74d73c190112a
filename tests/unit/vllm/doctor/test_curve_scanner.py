from __future__ import annotations

from proxy.vllm.doctor.curve_scanner import CurveScanner, curve_findings
from proxy.vllm.doctor.evidence import CurveFindings, Pattern
from tests.support.memory_curves import CARD_MIB, MIB, START_UP, curve, stamp, wavy

SPIKE = wavy(18000, 50) + [23000.0] * 2 + wavy(18000, 50)
CLIMB = [18000 + 20 * i for i in range(200)]
FLAT = wavy(22000, 100)


def findings(*files: list[str], block: int = 1000) -> CurveFindings:
    scanners = []
    for number, lines in enumerate(files):
        scanner = CurveScanner(f"gpu{number}.csv")
        raw = "\n".join(lines).encode()
        for begin in range(0, len(raw), block):
            scanner.feed(raw[begin : begin + block])
        scanner.close()
        scanners.append(scanner)
    found = curve_findings(scanners)
    assert found is not None
    return found


def test_a_spike_is_transient_and_its_line_is_shown() -> None:
    seen = findings(curve(SPIKE))
    (gpu,) = seen.gpus
    assert (seen.pattern, gpu.pattern, gpu.shape) == (Pattern.TRANSIENT, Pattern.TRANSIENT, "spike")
    assert (gpu.peak, gpu.total) == (23000 * MIB, CARD_MIB * MIB)
    assert [(line.file, line.line) for line in seen.evidence] == [("gpu0.csv", 52)]


def test_a_climb_is_steady_and_the_line_before_the_end_is_shown() -> None:
    seen = findings(curve([*CLIMB, 4, 4]))
    assert (seen.pattern, seen.gpus[0].shape) == (Pattern.STEADY, "climb")
    assert [line.line for line in seen.evidence] == [201]
    assert "given back once" in seen.notes[0]


def test_a_level_that_stays_is_steady_and_one_that_ends_says_nothing() -> None:
    assert findings(curve(FLAT)).pattern is Pattern.STEADY
    assert findings(curve([*START_UP, *FLAT, 4, 4])).pattern is Pattern.UNKNOWN


def test_of_several_cards_the_one_that_moved_decides() -> None:
    rows = [
        f"{stamp(i)}, {gpu}, {int(used)} MiB"
        for i, pair in enumerate(zip(FLAT[:100], CLIMB[:100], strict=True))
        for gpu, used in enumerate(pair)
    ]
    seen = findings(["timestamp, index, memory.used [MiB]", *rows])
    assert [gpu.shape for gpu in seen.gpus] == ["flat", "climb"]
    assert seen.pattern is Pattern.STEADY
    assert [note[:5] for note in seen.notes] == ["GPU 0", "GPU 1"]


def test_several_files_are_read_together() -> None:
    seen = findings(curve(FLAT), curve(SPIKE))
    assert seen.pattern is Pattern.TRANSIENT
    assert len(seen.gpus) == 2


def test_the_life_that_moved_tells_more_than_the_one_after_it() -> None:
    seen = findings(curve([*CLIMB, 4, 4, *START_UP, *FLAT]))
    assert seen.gpus[0].shape == "climb"


def test_a_recording_adds_the_engines_figures() -> None:
    header = (
        "timestamp, index, memory.used [MiB], engine.up, engine.kv_cache_usage,"
        " engine.preemptions_total, engine.running, engine.waiting"
    )
    rows = [f"{stamp(i)}, [N/A], [N/A], {int(i < 9)}, 0.9{i}, {i}, 8, {i}" for i in range(10)]
    seen = findings([header, *rows, ""])
    assert (seen.gpus, seen.pattern) == ((), Pattern.UNKNOWN)
    assert (seen.peak_kv_usage, seen.preemptions) == (0.99, 9)
    assert (seen.peak_running, seen.peak_waiting) == (8, 9)
    assert "stopped answering 1 times" in seen.notes[0]
    assert [line.line for line in seen.evidence] == [11, 11, 11]


def test_an_empty_card_is_said_to_be_empty() -> None:
    seen = findings(curve([4] * 20))
    assert (seen.pattern, seen.gpus[0].shape) == (Pattern.UNKNOWN, None)
    assert "next to nothing" in seen.notes[0]


def test_without_a_row_there_is_nothing_found() -> None:
    assert curve_findings([CurveScanner("empty.csv")]) is None
