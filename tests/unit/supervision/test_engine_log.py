"""Bytes in; lines, facts and a diagnosis out."""

from __future__ import annotations

from proxy.simulator.log_lines import out_of_memory_lines, start_up_lines
from proxy.simulator.options import SimulatorOptions
from proxy.supervision.engine_log import EngineLog
from proxy.vllm.doctor.evidence import Phase

OPTIONS = SimulatorOptions(max_num_seqs=64, kv_cache_tokens=32_768)


def written(*, ended_by_oom: bool = False) -> bytes:
    lines = start_up_lines(OPTIONS, "http://127.0.0.1:1")
    if ended_by_oom:
        lines = [*lines, *out_of_memory_lines(OPTIONS, 6000)]
    return "".join(f"{line.format(7, 0.0)}\n" for line in lines).encode()


def test_every_line_is_shown_once_wherever_the_bytes_are_cut() -> None:
    text = written()
    for size in (1, 7, 100, len(text)):
        shown: list[str] = []
        log = EngineLog(shown.append)
        for start in range(0, len(text), size):
            log.feed(text[start : start + size])
        assert shown == text.decode().splitlines()


def test_a_progress_bar_is_lines_and_a_last_line_without_end_is_shown_at_the_end() -> None:
    shown: list[str] = []
    log = EngineLog(shown.append)
    log.feed(b"0%\r50%\r\n100%\n\nlast \xff")
    assert shown == ["0%", "50%", "100%"]
    log.close()
    assert shown[-1] == "last \ufffd"


def test_a_line_without_an_end_does_not_grow_for_ever() -> None:
    shown: list[str] = []
    log = EngineLog(shown.append)
    for _ in range(10):
        log.feed(b"x" * 30_000)
    assert sum(map(len, shown)) >= 200_000


def test_it_tells_what_the_engine_got_while_it_runs() -> None:
    log = EngineLog(lambda _: None)
    assert log.facts().kv_cache_tokens is None
    log.feed(written())
    facts = log.facts()
    assert facts.kv_cache_tokens == 32_768
    assert (facts.max_concurrency, facts.max_concurrency_tokens) == (4.0, 8192)
    assert facts.flags["max_num_seqs"] == "64"


def test_a_death_is_diagnosed_with_the_lines_that_show_it() -> None:
    log = EngineLog(lambda _: None)
    log.feed(written(ended_by_oom=True))
    log.close()
    diagnosis = log.diagnosis()
    assert diagnosis.oom is True
    assert diagnosis.phase is Phase.PREFILL
    lines = written(ended_by_oom=True).decode().splitlines()
    assert all(lines[one.line - 1].strip() == one.text for one in diagnosis.evidence)


def test_without_evidence_it_says_so() -> None:
    log = EngineLog(lambda _: None)
    log.feed(b"".join(b"line %d\n" % number for number in range(100)))
    log.close()
    assert log.diagnosis().oom is None
