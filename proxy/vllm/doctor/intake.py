"""All evidence there is, file after file, sorted by its kind into the readers that know it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.vllm.doctor.curve_scanner import CurveScanner, MemoryScanner, curve_findings
from proxy.vllm.doctor.evidence import Findings, MetricsFindings
from proxy.vllm.doctor.kernel_scanner import KernelScanner
from proxy.vllm.doctor.kinds import HEAD_BYTES, Kind, kind_of, packed_by
from proxy.vllm.doctor.log_scanner import LogScanner
from proxy.vllm.doctor.page_reader import merge_pages, read_page
from proxy.vllm.doctor.table_scanner import TableScanner
from proxy.vllm.doctor.text import Utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_PAGE = 16 << 20
_MOST_REMARKS = 8
# A log that was emptied while its writer went on at its old place begins with as many zeros.
_HOLE = bytes(512)
_NO_TEXT = "is no text; if there is a log in it: `strings FILE | sluice doctor -`"
# People paste nvidia-smi's table above the log.
_TEXTS = (Kind.TEXT, Kind.TABLE)
_SCANNERS: dict[Kind | None, type[MemoryScanner]] = {
    Kind.CURVE: CurveScanner,
    Kind.TABLE: TableScanner,
}
_NO_ROW: dict[Kind | None, str] = {
    Kind.CURVE: "looks like a memory curve, but no row of it could be read",
    Kind.TABLE: (
        "is the table that nvidia-smi prints for people, without a card's memory; record with "
        "`sluice record`, or nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total "
        "--format=csv -l 1"
    ),
}


@dataclass(frozen=True, slots=True)
class FileReport:
    """`problem`: in a few words, why nothing of the file could be used; None: it could. An empty
    file is no problem: it was read, and says nothing."""

    name: str
    kind: Kind
    problem: str | None = None


@dataclass(slots=True)
class _Open:
    """The file that is being read."""

    name: str
    recognised: int  # lines of logs and of kernels, before it
    utf8: Utf8 = field(default_factory=Utf8)
    head: bytearray = field(default_factory=bytearray)
    kind: Kind | None = None
    curve: MemoryScanner | None = None
    page: bytearray = field(default_factory=bytearray)


class Intake:
    """`begin` a file, `feed` it block by block, `end` it; then the next, or the same name again,
    whose lines then count from 1 anew. `findings` may be asked for at any time."""

    def __init__(self) -> None:
        self._log = LogScanner()
        self._kernel = KernelScanner()
        self._curves: list[MemoryScanner] = []
        self._pages: list[MetricsFindings] = []
        self._texts = 0
        self._remarks: list[str] = []
        self._cut = False
        self._open: _Open | None = None

    def begin(self, name: str) -> None:
        self._open = _Open(name, self._recognised())

    def feed(self, block: bytes) -> None:
        """The next bytes, unpacked."""
        file = self._file()
        if file.kind is not None:
            self._sort(file, file.utf8.feed(block))
            return
        file.head += block
        if file.head.startswith(_HOLE):
            file.head = file.head.lstrip(b"\0") or bytearray(_HOLE)
        if len(file.head) >= HEAD_BYTES:
            self._decide(file)

    def look(self) -> str | None:
        """Decides the kind by what there is: no more may come for long. Why nothing of it can be
        used, as in a report."""
        file = self._file()
        if file.kind is None and (b"\n" in file.head or packed_by(bytes(file.head))):
            self._decide(file)
        return _unused(file) if file.kind is Kind.BINARY else None

    def end(self, *, cut: bool = False) -> FileReport:
        """`cut`: the file broke off, and its end is lost."""
        file = self._file()
        kind = file.kind or self._decide(file)
        self._open = None
        problem = self._close(file)
        self._cut = self._cut or cut
        self._remarks += self._remarks_on(file, kind, cut=cut)
        return FileReport(file.name, kind, problem)

    def findings(self) -> Findings:
        kernel = self._kernel.findings()
        return Findings(
            log=self._log.findings() if self._texts else None,
            curve=curve_findings(self._curves),
            metrics=merge_pages(self._pages),
            kernel=kernel if kernel.host_kills or kernel.xids else None,
            remarks=tuple(self._remarks[:_MOST_REMARKS]),
            cut=self._cut,
        )

    def _remarks_on(self, file: _Open, kind: Kind, *, cut: bool) -> Iterator[str]:
        if cut:
            yield f"{file.name} is damaged or was not written to its end: what follows is lost"
        if kind is Kind.EMPTY:
            yield f"{file.name} is empty"
        if kind is Kind.TEXT and self._recognised() == file.recognised:
            yield f"{file.name} has no line on an engine's start, memory or end"

    def _recognised(self) -> int:
        kernel = self._kernel.findings()
        return self._log.findings().recognised + len(kernel.host_kills) + len(kernel.xids)

    def _file(self) -> _Open:
        if self._open is None:
            raise RuntimeError("no file was begun")
        return self._open

    def _decide(self, file: _Open) -> Kind:
        head = file.utf8.feed(bytes(file.head))
        file.kind = kind_of(head[:HEAD_BYTES])
        if file.kind in _SCANNERS:
            file.curve = _SCANNERS[file.kind](file.name)
            self._curves.append(file.curve)
        self._texts += file.kind in _TEXTS
        self._sort(file, head)
        if file.kind is not Kind.BINARY:
            file.head.clear()
        return file.kind

    def _sort(self, file: _Open, block: bytes) -> None:
        if file.kind in _TEXTS:
            self._log.feed(block, file.name)
            self._kernel.feed(block, file.name, self._log.lines_of(file.name))
        if file.curve is not None:
            file.curve.feed(block)
        elif file.kind is Kind.PAGE and len(file.page) < _LONGEST_PAGE:
            file.page += block

    def _close(self, file: _Open) -> str | None:
        if file.kind in _TEXTS:
            self._kernel.close(file.name, self._log.lines_of(file.name))
            self._log.close(file.name)
        if file.curve is not None:
            file.curve.close()
            if not file.curve.samples and self._recognised() == file.recognised:
                return _NO_ROW[file.kind]
        match file.kind:
            case Kind.PAGE:
                self._pages.append(read_page(file.page.decode(errors="replace"), file.name))
            case Kind.BINARY:
                return _unused(file)
        return None


def _unused(file: _Open) -> str:
    return packed_by(bytes(file.head)) or _NO_TEXT
