"""Whole lines from bytes that are cut anywhere."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.doctor.line_cutter import LONGEST_CARRY, LineCutter

TEXT = b"one\ntwo\n\nfour\nlast"


@given(st.lists(st.integers(0, len(TEXT)), max_size=6))
def test_every_cut_gives_the_same_lines_and_numbers(cuts: list[int]) -> None:
    cutter, lines = LineCutter(), []
    edges = [0, *sorted(cuts), len(TEXT)]
    runs = [TEXT[a:b] for a, b in pairwise(edges)]
    for run in [list(cutter.cut(run)) for run in runs] + [list(cutter.rest())]:
        for part in run:
            at = 0
            for line in part.data.splitlines(keepends=True):
                lines.append((part.number_at(at), line.strip()))
                at += len(line)
    assert lines == [(1, b"one"), (2, b"two"), (3, b""), (4, b"four"), (5, b"last")]


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    cutter = LineCutter()
    parts = [part for _ in range(20) for part in cutter.cut(b"x" * (1 << 20))]
    assert max(len(part.data) for part in parts) <= LONGEST_CARRY + (1 << 20)
    assert {part.first for part in parts} == {1}
