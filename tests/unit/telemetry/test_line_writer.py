from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from proxy.telemetry.line_writer import LineWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


@contextmanager
def stuck_pipe() -> Iterator[tuple[int, int, int]]:
    """A pipe that takes no more bytes until somebody reads; also how many it holds."""
    with pipe() as (reader, writer):
        size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, b"x" * size)
        yield reader, writer, size


def test_lines_reach_the_file_in_order(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    writer = LineWriter.to_file(path)
    lines = [b"%d\n" % number for number in range(10_000)]
    for line in lines:
        writer.write(line)
    writer.close()
    assert path.read_bytes() == b"".join(lines)
    assert writer.dropped == 0


def test_lines_are_added_to_a_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"before\n")
    writer = LineWriter.to_file(path)
    writer.write(b"after\n")
    writer.close()
    assert path.read_bytes() == b"before\nafter\n"


def test_a_new_file_is_not_for_everybody_to_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    LineWriter.to_file(path).close()
    assert not path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH)


def test_a_file_that_cannot_be_opened_says_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        LineWriter.to_file(tmp_path)


def test_a_line_is_written_without_anyone_asking() -> None:
    with pipe() as (reader, descriptor):
        writer = LineWriter(descriptor, "stdout", owned=False)
        writer.write(b"soon\n")
        assert os.read(reader, 100) == b"soon\n"
        writer.close()


def test_flush_returns_once_every_line_is_out() -> None:
    with pipe() as (reader, descriptor):
        writer = LineWriter(descriptor, "stdout", owned=False)
        for _ in range(100):
            writer.write(b"line\n")
            assert writer.flush()
            assert os.read(reader, 100) == b"line\n"
        writer.close()


def test_a_reader_that_stopped_costs_lines_and_never_time(caplog: pytest.LogCaptureFixture) -> None:
    with stuck_pipe() as (reader, descriptor, size):
        writer = LineWriter(descriptor, "stdout", owned=False, max_lines=10)
        writer.write(b"held\n")
        assert not writer.flush(timeout_s=0.05)
        for _ in range(15):  # each returns, though nothing can be written
            writer.write(b"line\n")
        assert writer.dropped == 5
        os.read(reader, size)
        writer.close()
        assert os.read(reader, 1000) == b"held\n" + b"line\n" * 10
    assert "stdout cannot keep up: 5 lines dropped so far" in caplog.text


def test_closing_gives_up_on_a_reader_that_stopped(caplog: pytest.LogCaptureFixture) -> None:
    with stuck_pipe() as (reader, descriptor, size):
        writer = LineWriter(descriptor, "stdout", owned=False)
        writer.write(b"held\n")
        writer.close(timeout_s=0.01)
        assert "stdout takes no more lines" in caplog.text
        os.read(reader, size)
        writer.close()


def test_a_full_disk_is_said_once_and_its_lines_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    writer = LineWriter(descriptor, "trace.jsonl", owned=True)
    for _ in range(3):
        writer.write(b"line\n")
        assert writer.flush()
    writer.close()
    assert writer.dropped == 3
    assert caplog.record_tuples == [
        (
            "proxy.telemetry.line_writer",
            logging.WARNING,
            f"cannot write to trace.jsonl: {os.strerror(errno.ENOSPC)}; lines are lost",
        )
    ]


def test_after_a_failed_write_the_next_line_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    descriptor = os.open("/dev/full", os.O_WRONLY)
    writer = LineWriter(descriptor, "trace.jsonl", owned=True)
    writer.write(b"lost\n")
    assert writer.flush()
    with path.open("wb") as healthy:
        os.dup2(healthy.fileno(), descriptor)
    writer.write(b"kept\n")
    writer.close()
    assert path.read_bytes() == b"\nkept\n"


def test_a_descriptor_that_somebody_made_non_blocking_loses_nothing() -> None:
    with stuck_pipe() as (reader, descriptor, size):
        os.set_blocking(descriptor, False)
        writer = LineWriter(descriptor, "stdout", owned=False)
        writer.write(b"line\n")
        assert not writer.flush(timeout_s=0.05)
        os.read(reader, size)
        assert writer.flush()
        assert os.read(reader, 100) == b"line\n"
        assert writer.dropped == 0
        writer.close()


def test_a_closed_writer_takes_no_more_and_counts_them(tmp_path: Path) -> None:
    writer = LineWriter.to_file(tmp_path / "access.log")
    writer.close()
    writer.write(b"late\n")
    writer.close()
    assert writer.dropped == 1


def test_an_owned_descriptor_is_closed_and_a_borrowed_one_is_not() -> None:
    with pipe() as (_reader, descriptor):
        LineWriter(descriptor, "stdout", owned=False).close()
        owned = os.dup(descriptor)
        LineWriter(owned, "file", owned=True).close()
        os.fstat(descriptor)
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(owned)


def test_what_several_processes_write_to_a_pipe_comes_in_pieces_of_whole_lines() -> None:
    reading, writing = os.pipe()
    pieces: list[int] = []
    writer = LineWriter(writing, "stderr", owned=True, shared=True)
    try:
        write_some = writer._write_some

        def noted(data: memoryview) -> int:
            pieces.append(len(data))
            assert bytes(data[-1:]) == b"\n"
            return write_some(data)

        writer._write_some = noted  # type: ignore[method-assign]
        for _ in range(200):
            writer.write(b"x" * 99 + b"\n")
        writer.write(b"y" * 5000 + b"\n")  # alone, and not in one piece
        writer.write(b"z\n")
        writer.close()
        with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
            assert len(pipe.read().splitlines()) == 202
    finally:
        writer.close()
    *others, longest = sorted(pieces)
    assert longest == 5001
    assert max(others) <= 4096
