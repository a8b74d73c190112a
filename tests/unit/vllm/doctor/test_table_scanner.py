from __future__ import annotations

from proxy.vllm.doctor.curve_scanner import curve_findings
from proxy.vllm.doctor.evidence import CurveFindings, Pattern
from proxy.vllm.doctor.table_scanner import TableScanner
from tests.support.memory_curves import MIB, TABLE


def findings(text: str) -> CurveFindings | None:
    scanner = TableScanner("smi.txt")
    scanner.feed(text.encode())
    scanner.close()
    return curve_findings([scanner])


def test_each_card_has_its_peak_and_no_pattern() -> None:
    seen = findings(TABLE)
    assert seen is not None
    assert [(gpu.peak, gpu.pattern) for gpu in seen.gpus] == [
        (76543 * MIB, Pattern.UNKNOWN),
        (9000 * MIB, Pattern.UNKNOWN),
    ]
    assert "76543MiB" in seen.evidence[0].text


def test_who_holds_a_cards_memory_is_named_the_largest_first() -> None:
    seen = findings(TABLE)
    assert seen is not None
    assert seen.notes[0].endswith("held by VLLM::EngineCore (PID 4711, 74.73 GiB)")
    assert seen.notes[1].endswith("held by python (PID 2048, 8.78 GiB), Xorg (PID 1938, 4 MiB)")


def test_of_many_holders_a_few_are_named() -> None:
    row = "|    0   N/A  N/A            47%02d      C   python3                      1000MiB |\n"
    seen = findings(TABLE + "".join(row % number for number in range(6)))
    assert seen is not None
    assert seen.notes[0].endswith("3 more")


def test_a_text_without_a_card_is_no_sample() -> None:
    assert findings("INFO all is well\n") is None
