"""Files that people hand to the tools: logs, curves, metrics pages, traces, specifications.
Whatever is in them, a tool answers or says in a line what is wrong; it never breaks down and
never hangs."""

from __future__ import annotations

import functools
import gzip
import io
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from proxy.cli.doctor_page import as_object, print_diagnosis
from proxy.openai_api.usage import UsageTail
from proxy.replay.result import BadResultError, read_result
from proxy.replay.synthetic.arrival_process import parse_arrivals
from proxy.replay.synthetic.distribution import parse_distribution
from proxy.replay.synthetic.specification import BadSpecificationError, duration_s
from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace
from proxy.vllm.doctor.blocks import Blocks
from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.intake import Intake
from proxy.vllm.doctor.kinds import HEAD_BYTES
from proxy.vllm.metrics_page import parse_metrics_page
from tests.fuzz.fuzzing import assert_is_one_line, cut, examples, mostly, places
from tests.fuzz.samples import CURVE_LINES, LOG_LINES, ODD_NUMBERS, PAGE_LINES, TRACE_LINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.vllm.doctor.evidence import Diagnosis

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ONE_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def with_odd_numbers(line: str, at: list[int], numbers: list[str]) -> str:
    found = list(_NUMBER.finditer(line))
    for place, number in zip(at, numbers, strict=False):
        if found:
            match = found[place % len(found)]
            line = line[: match.start()] + number + line[match.end() :]
            found = list(_NUMBER.finditer(line))
    return line


def garbled(lines: list[str]) -> st.SearchStrategy[str]:
    return st.builds(
        with_odd_numbers,
        st.sampled_from(lines),
        st.lists(st.integers(0, 9), max_size=2),
        st.lists(st.sampled_from(ODD_NUMBERS), max_size=2),
    )


_any_lines = st.one_of(garbled(LOG_LINES), garbled(CURVE_LINES), garbled(PAGE_LINES), st.text())
_files = st.one_of(
    *(st.lists(garbled(lines), max_size=8) for lines in (LOG_LINES, CURVE_LINES, PAGE_LINES)),
    st.lists(_any_lines, max_size=8),
).map("\n".join)
_packed = st.sampled_from(
    [
        lambda data: data,
        lambda data: data,
        gzip.compress,
        lambda data: gzip.compress(data)[:-5],
        lambda data: gzip.compress(data) + gzip.compress(data) + b"x",
        lambda data: b"\x1f\x8b" + data,
        lambda data: b"\0" * 600 + data,
    ]
)
_encoded = st.builds(
    lambda text, encoding: text.encode(encoding, "replace"),
    _files,
    st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"]),
)
contents = st.builds(
    lambda pack, data: pack(data), _packed, st.one_of(_encoded, _encoded, st.binary(max_size=64))
)


def diagnosed(files: list[bytes], where: list[int]) -> Diagnosis:
    intake = Intake()
    for number, content in enumerate(files):
        intake.begin(f"file {number}")
        for block in Blocks(io.BytesIO(content)):
            for piece in cut(block, where):
                intake.feed(piece)
        intake.look()
        report = intake.end()
        assert report.problem is None or report.problem
    return diagnose(intake.findings())


@given(st.lists(contents, min_size=1, max_size=3), places)
@examples(120)
def test_the_doctor_answers_whatever_is_in_the_files(files: list[bytes], where: list[int]) -> None:
    diagnosis = diagnosed(files, where)
    told = json.loads(json.dumps(as_object(diagnosis, {}), allow_nan=False))
    assert set(told) >= {"oom", "phase", "pattern", "cause", "evidence", "advice", "confidence"}
    for advice in told["advice"]:
        assert advice["set"]
    print_diagnosis(Console(file=io.StringIO(), width=80), diagnosis)


@given(st.lists(garbled(LOG_LINES), min_size=1, max_size=8), places)
@examples(40)
def test_a_log_says_the_same_however_it_is_cut(lines: list[str], where: list[int]) -> None:
    """Behind the part that is kept until it is known what the file is."""
    beginning = [LOG_LINES[0], *["x" * 1000] * (HEAD_BYTES // 1000 + 1)]
    content = "\n".join([*beginning, *lines]).encode("utf-8", "replace")
    cuts = [HEAD_BYTES + place % (len(content) - HEAD_BYTES) for place in where]
    assert diagnosed([content], cuts) == diagnosed([content], [])


# What a reader that goes back over a line again and again would need hours for. The limit on a
# test's time is the judge.
@given(st.sampled_from([*LOG_LINES, *CURVE_LINES, *PAGE_LINES]), st.integers(0, 200), st.binary())
@examples(15)
def test_no_line_is_so_made_that_reading_it_takes_ages(line: str, at: int, filler: bytes) -> None:
    long = line[:at].encode() + (filler or b" ") * 20_000 + line[at:].encode()
    diagnosed([(long[:200_000] + b"\n") * 2], [])


@given(
    st.one_of(garbled(PAGE_LINES), st.text()).map(str), st.lists(garbled(PAGE_LINES), max_size=6)
)
@examples(80)
def test_a_metrics_page_is_read_whatever_is_on_it(first: str, more: list[str]) -> None:
    parse_metrics_page("\n".join([first, *more]))


# A trace of one kind, and one of whatever.
_kinds = [TRACE_LINES[:5], TRACE_LINES[5:8], TRACE_LINES[8:10], TRACE_LINES[10:]]
_one_kind = st.sampled_from(_kinds).flatmap(
    lambda lines: st.lists(garbled(lines), max_size=5).map(lambda rows: [lines[0], *rows])
)
_traces = st.one_of(
    _one_kind, st.lists(st.one_of(garbled(TRACE_LINES), st.text(max_size=5)), max_size=8)
)
_trace_files = st.builds(
    lambda pack, lines: pack("\n".join(lines).encode("utf-8", "replace")), _packed, _traces
)


def of_a_file(read: Callable[[Path], object], content: bytes) -> object:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "input"
        path.write_bytes(content)
        return read(path)


@given(st.one_of(_trace_files, _trace_files, contents))
@examples(150)
def test_a_trace_is_read_or_said_to_be_none(content: bytes) -> None:
    read_or_told(content)


def odd_at_one_place(row: str) -> Iterator[str]:
    for found in _ONE_NUMBER.finditer(row):
        for odd in ODD_NUMBERS:
            yield row[: found.start()] + odd + row[found.end() :]


@pytest.mark.parametrize("kind", range(len(_kinds)))
def test_a_trace_with_an_odd_number_at_any_place_is_read_or_said_to_be_none(kind: int) -> None:
    """By chance each place meets each number too seldom."""
    header, *rows = _kinds[kind] if kind < 2 else ["", *_kinds[kind]]
    for row in rows:
        for odd in odd_at_one_place(row):
            for lines in ([row, odd], [odd, row]):
                read_or_told("\n".join([header, *lines]).strip().encode())


def read_or_told(content: bytes) -> None:
    try:
        trace = of_a_file(read_trace, content)
    except BadTraceError as error:
        assert_is_one_line(error)
    else:
        times = [arrival.at_s for arrival in trace.arrivals]  # type: ignore[attr-defined]
        assert times == sorted(times)
        assert all(0 <= at <= 2e13 for at in times)
        assert all(a.prompt_tokens >= 0 and a.output_tokens >= 0 for a in trace.arrivals)  # type: ignore[attr-defined]


@given(
    st.one_of(
        contents,
        st.recursive(
            st.one_of(st.none(), st.integers(), st.text(max_size=4), st.floats()),
            lambda inner: st.dictionaries(
                st.sampled_from(
                    ["format", "version", "run", "requests", "gaps", "series", "load", "x"]
                ),
                inner,
            ),
            max_leaves=6,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
@examples(60)
def test_a_result_is_read_or_said_to_be_none(content: bytes) -> None:
    try:
        of_a_file(read_result, content)
    except BadResultError as error:
        assert_is_one_line(error)


_SPECIFICATIONS = st.lists(
    st.sampled_from(
        [
            "poisson",
            "constant",
            "gamma",
            "ramp",
            "step",
            "uniform",
            "lognormal",
            "exponential",
            ":",
            ",",
            "=",
            "p50",
            "p95",
            "mean",
            "cv",
            "-",
            "s",
            "m",
            "ms",
            "10",
            " ",
            "*",
            "x",
            *ODD_NUMBERS,
        ]
    ),
    max_size=8,
).map("".join)


@given(_SPECIFICATIONS)
@examples(150)
def test_a_specification_is_read_or_said_to_be_none(written: str) -> None:
    for read in (
        parse_arrivals,
        functools.partial(parse_distribution, what="--output-tokens"),
        functools.partial(duration_s, what="--duration"),
    ):
        try:
            read(written)
        except BadSpecificationError as error:
            assert_is_one_line(error)


@given(
    mostly(
        st.sampled_from(
            [
                b'"usage"',
                b":",
                b"{",
                b"}",
                b'"prompt_tokens":',
                b'"completion_tokens":',
                b"5",
                b"-1",
                b"9" * 5000,
                b"1e400",
                b"null",
                b",",
                b'"',
                b"\\",
                b"\xff",
                b"data: ",
                b"\n\n",
                b"[" * 999,
            ]
        )
    ),
    places,
)
@examples(100)
def test_an_answer_tells_its_usage_or_none(answer: bytes, where: list[int]) -> None:
    tail = UsageTail()
    for piece in cut(answer, where):
        tail.feed(piece)
    usage = tail.usage()
    assert usage is None or (usage.prompt_tokens >= 0 and usage.completion_tokens >= 0)


# What was found -------------------------------------------------------------------------------


def test_a_number_without_an_end_is_no_number_and_takes_no_time() -> None:
    """256 KiB of digits took minutes, and some lines ended in a ValueError or OverflowError."""
    for line in [*LOG_LINES, *CURVE_LINES]:
        for found in _NUMBER.finditer(line):
            endless = line[: found.start()] + "9" * 20_000 + line[found.end() :]
            diagnosed([f"{endless}\n".encode()], [])
