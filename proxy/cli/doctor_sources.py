"""Where the doctor's evidence comes from: files, standard input, URLs."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit, urlunsplit

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from proxy.vllm.doctor.blocks import GZIP_MAGIC, Blocks
from proxy.vllm.probe import Answer, NoAnswer, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.vllm.doctor.intake import Intake

STDIN = "-"
_URL_SCHEMES = ("http://", "https://")
# Where people point at an engine or a gateway rather than at one of its pages.
_ROOTS = ("", "/", "/v1", "/v1/")
_PAGE = "/metrics"
_URL_TIMEOUT_S = 30.0
_LONGEST_DOWNLOAD = 256 << 20
_WORTH_A_BAR = 32 << 20


def is_url(source: str) -> bool:
    return source.lower().startswith(_URL_SCHEMES)


def take_in(source: str, intake: Intake) -> str | None:
    """Reads it to its end. What is wrong with it, if nothing of it could be used; else None."""
    try:
        if source == STDIN:
            return _read("stdin", sys.stdin.buffer, intake, 0)
        if is_url(source):
            return _fetch(source, intake)
        with Path(source).open("rb", buffering=0) as file:
            return _read(source, file, intake, os.fstat(file.fileno()).st_size)
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _read(name: str, file: BinaryIO, intake: Intake, size: int) -> str | None:
    intake.begin(name)
    blocks = Blocks(file)
    any_read = False
    with _bar(name, size) as advance:
        for block in blocks:
            intake.feed(block)
            any_read = True
            if size:
                advance(file.tell())
    report = intake.end(cut=blocks.cut)
    if not any_read and size > len(GZIP_MAGIC):
        return "damaged: it begins as gzip does and cannot be unpacked"
    return report.problem


def _fetch(source: str, intake: Intake) -> str | None:
    root, path, shown = _parts(source)
    answer = asyncio.run(_get(root, path))
    if isinstance(answer, NoAnswer):
        return answer.reason
    if answer.status != 200:
        return f"GET {path} answers {answer.status}{_of_sluice(path) if answer.from_sluice else ''}"
    if answer.body is None:
        return f"longer than {_LONGEST_DOWNLOAD >> 20} MiB: download it first"
    return _read(shown, io.BytesIO(answer.body), intake, 0)


def _of_sluice(path: str) -> str:
    who = "Sluice's public listener" if path == _PAGE else "Sluice"
    return f": this is {who}; give the URL of the engine behind it, or of Sluice's admin listener"


async def _get(root: str, path: str) -> Answer | NoAnswer:
    async with Probe(root) as probe:
        return await probe.get(path, _URL_TIMEOUT_S, _LONGEST_DOWNLOAD)


def _parts(url: str) -> tuple[str, str, str]:
    """The root with its user information, the path to ask for, and what may be shown of both."""
    parts = urlsplit(url)
    path = _PAGE if parts.path in _ROOTS else parts.path
    path = urlunsplit(("", "", path, parts.query, ""))
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{parts.netloc}", path, f"{parts.scheme}://{host}{path}"


@contextmanager
def _bar(name: str, size: int) -> Iterator[Callable[[int], None]]:
    """Progress on standard error, where somebody watches and the file is large."""
    console = Console(stderr=True)
    if not console.is_terminal or size < _WORTH_A_BAR:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, TransferSpeedColumn(), console=console, transient=True) as bars:
        task = bars.add_task(Path(name).name, total=size)
        yield lambda done: bars.update(task, completed=done)
