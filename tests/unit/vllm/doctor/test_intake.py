from __future__ import annotations

import gzip

import pytest

from proxy.vllm.doctor.evidence import Findings
from proxy.vllm.doctor.intake import FileReport, Intake
from proxy.vllm.doctor.kinds import Kind
from tests.support.memory_curves import TABLE, curve

LOG = b"INFO 12-02 14:26:32 [api.py:1] vLLM server version 0.32.0\n"
KILL = b"[1.0] Memory cgroup out of memory: Killed process 9 (python3) total-vm:9kB, anon-rss:8kB\n"
OOM = b"ValueError: No available memory for the cache blocks.\n"
PAGE = b"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.5\n"
CURVE = "\n".join(curve([1000, 2000])).encode()


def taken(*files: bytes, block: int = 1 << 20) -> tuple[Findings, list[FileReport]]:
    intake = Intake()
    reports = []
    for number, raw in enumerate(files):
        intake.begin(f"file{number}")
        for begin in range(0, len(raw), block):
            intake.feed(raw[begin : begin + block])
        reports.append(intake.end())
    return intake.findings(), reports


@pytest.mark.parametrize("block", [50, 1 << 20])
def test_each_kind_finds_its_reader(block: int) -> None:
    findings, reports = taken(LOG, CURVE, PAGE, KILL, block=block)
    assert [report.kind for report in reports] == [Kind.TEXT, Kind.CURVE, Kind.PAGE, Kind.TEXT]
    assert [report.problem for report in reports] == [None] * 4
    assert findings.log is not None
    assert findings.curve is not None
    assert findings.metrics is not None
    assert findings.metrics.kv_usage == 0.5
    assert findings.kernel is not None
    assert findings.kernel.host_kills[0].evidence.file == "file3"


def test_one_journal_may_hold_the_engines_lines_and_the_kernels() -> None:
    findings, _ = taken(LOG + KILL)
    assert findings.log is not None
    assert findings.kernel is not None
    assert findings.kernel.host_kills[0].evidence.line == 2


def test_utf_16_is_read_as_any_other() -> None:
    findings, _ = taken(CURVE.decode().encode("utf-16"))
    assert findings.curve is not None


def test_what_nobody_gave_is_none() -> None:
    findings, (report,) = taken(b"")
    assert findings == Findings(remarks=("file0 is empty",))
    assert (report.kind, report.problem) == (Kind.EMPTY, None)


def test_a_file_that_tells_nothing_is_named() -> None:
    findings, _ = taken(OOM, b"GET / 200\n" * 9, KILL, CURVE, PAGE)
    assert findings.remarks == ("file1 has no line on an engine's start, memory or end",)


@pytest.mark.parametrize("block", [100, 1 << 20])
@pytest.mark.parametrize("zeros", [300, 70_000])
def test_a_log_that_was_emptied_under_its_writer_begins_with_zeros(zeros: int, block: int) -> None:
    findings, (report,) = taken(bytes(zeros) + LOG + OOM, block=block)
    assert (report.kind, report.problem) == (Kind.TEXT, None)
    assert findings.log is not None
    assert "no KV cache" in {sign.rule for life in findings.log.lives for sign in life.signs}


def test_zeros_alone_are_no_text() -> None:
    _, (report,) = taken(bytes(200_000), block=1000)
    assert report.kind is Kind.BINARY


def test_a_file_whose_end_is_lost_is_told() -> None:
    intake = Intake()
    intake.begin("vllm.log.gz")
    intake.feed(LOG)
    intake.end(cut=True)
    findings = intake.findings()
    assert findings.cut
    assert "vllm.log.gz is damaged" in findings.remarks[0]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (bytes(range(256)) * 10, "is no text"),
        (b"\x28\xb5\x2f\xfd" + bytes(range(256)), "zstd -dc"),
        (b"\x1f\x8b" + bytes(range(256)), "zcat"),
        (b"| NVIDIA-SMI 550.54 |\n", "without a card's memory"),
        (b"timestamp, memory.used [MiB]\n", "no row"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_few_words(raw: bytes, words: str) -> None:
    _, (report,) = taken(raw)
    assert words in (report.problem or "")


def test_nvidia_smis_table_is_one_sample_of_each_card() -> None:
    findings, (report,) = taken(TABLE.encode())
    assert (report.kind, report.problem) == (Kind.TABLE, None)
    assert findings.curve is not None
    assert [gpu.index for gpu in findings.curve.gpus] == [0, 1]


def test_a_log_below_a_pasted_table_is_read_too() -> None:
    findings, (report,) = taken(TABLE.encode() + OOM)
    assert report.problem is None
    assert findings.log is not None
    assert findings.log.recognised
    bare, (report,) = taken(b"| NVIDIA-SMI 580.1 |\n| N/A 67C | Not Supported | 0% |\n" + OOM)
    assert report.problem is None
    assert bare.curve is None


def test_a_look_at_a_short_file_decides_what_it_is() -> None:
    intake = Intake()
    intake.begin("growing.csv")
    intake.feed(CURVE)
    assert intake.findings().curve is None
    intake.look()
    assert intake.findings().curve is None  # rows are looked at together, to count the cards
    intake.end()
    assert intake.findings().curve is not None


def test_a_look_says_why_nothing_of_a_file_can_be_used() -> None:
    intake = Intake()
    intake.begin("growing.gz")
    intake.feed(gzip.compress(LOG))
    assert "zcat" in (intake.look() or "")
    intake.end()
    intake.begin("growing.log")
    intake.feed(LOG)
    assert intake.look() is None
