"""A vLLM log, block after block: what it says of memory.

Nearly all bytes of a large log are access lines. So whole blocks are searched for a few words at
memory speed, and only the lines around a hit are cut out, decoded and read.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from proxy.vllm.doctor import oom_message, stats_lines
from proxy.vllm.doctor.client_words import without_clients_words
from proxy.vllm.doctor.engine_lives import Lives
from proxy.vllm.doctor.evidence import EvidenceLine, Frame, LogFindings
from proxy.vllm.doctor.line_cutter import LineCutter, Lines
from proxy.vllm.doctor.log_line import LogLine, decoded, log_lines
from proxy.vllm.doctor.prefilter import Prefilter, lines_at_an_end
from proxy.vllm.doctor.signs import signs_in
from proxy.vllm.doctor.tracebacks import frames_above, named_method
from proxy.vllm.endless_numbers import without_endless_numbers

_LONGEST_TEXT = 2_000
_LONGEST_LINE = 256 << 10
_MOST_ABOVE = 96 << 10
_MOST_TRACEBACKS = 24
_END = 64 << 10  # how a life ended stands in so many of its last bytes


class LogScanner:
    """Holds what several logs said so far, in bounded memory.

    `feed` takes any cut of a file's bytes, `close` says that the file ends (a last line without
    its end counts then), `findings` may be asked for at any time, also between blocks.
    """

    def __init__(self) -> None:
        self._files: dict[str, _FileScan] = {}
        self._done: list[_FileScan] = []

    def feed(self, block: bytes, file: str) -> None:
        """The next bytes of `file`, cut anywhere; `file` is what the evidence names."""
        self._scan_of(file).feed(block)

    def close(self, file: str) -> None:
        """No more bytes of `file` will come."""
        scan = self._files.pop(file, None)
        if scan:
            scan.close()
            self._done.append(scan)

    def lines_of(self, file: str) -> int:
        """How many lines of an open file have ended so far."""
        scan = self._files.get(file)
        return scan.cutter.lines if scan else 0

    def findings(self) -> LogFindings:
        """All that was said so far; an unfinished last line counts once its end has come."""
        scans = [*self._done, *self._files.values()]
        return LogFindings(
            lives=tuple(life for scan in scans for life in scan.lives.ended()),
            lines=sum(scan.cutter.lines for scan in scans),
            bytes=sum(scan.cutter.bytes for scan in scans),
            recognised=sum(scan.lives.recognised for scan in scans),
        )

    def _scan_of(self, file: str) -> "_FileScan":
        if file not in self._files:
            self._files[file] = _FileScan(file)
        return self._files[file]


class _FileScan:
    """One file's reading."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.cutter = LineCutter()
        self.lives = Lives(file)
        self._prefilter = Prefilter()
        self._latest: deque[tuple[Lines, frozenset[int]]] = deque()
        self._above = b""  # the lines before, at least as many as a traceback takes

    def feed(self, block: bytes) -> None:
        for lines in self.cutter.cut(block):
            self._read(lines)

    def close(self) -> None:
        for lines in self.cutter.rest():
            self._read(lines)
        self._read_end()

    def _read(self, lines: Lines) -> None:
        data = lines.data
        found, begins = self._prefilter.lines_of_interest(data)
        if begins:
            self._read_end()
        for start, end in found:
            self._read_line(lines, start, end)
        self._latest.append((lines, frozenset(start for start, _ in found)))
        while sum(len(run.data) for run, _ in self._latest) - len(self._latest[0][0].data) > _END:
            self._latest.popleft()
        self._above = data if len(data) >= _MOST_ABOVE else (self._above + data)[-_MOST_ABOVE:]

    def _read_end(self) -> None:
        """How a life ended stands in its last lines, and nobody else looks for it there."""
        for lines, read in self._latest:
            for start, end in lines_at_an_end(lines.data):
                if start not in read:
                    self._read_line(lines, start, end)
        self._latest.clear()

    def _read_line(self, lines: Lines, start: int, end: int) -> None:
        raw = without_endless_numbers(lines.data[start : min(end, start + _LONGEST_LINE)])
        stats = stats_lines.read_stats(raw) if stats_lines.NEEDLE in raw else None
        if stats:
            evidence = None
            if self.lives.is_fullest(stats):
                evidence = self._evidence(lines, start, decoded(raw))
            self.lives.add_stats(stats, evidence)
            return
        text = decoded(raw)
        evidence = self._evidence(lines, start, text)
        for line in log_lines(text):
            self._read_text(line, evidence, lines, start)

    def _read_text(self, line: LogLine, evidence: EvidenceLine, lines: Lines, start: int) -> None:
        self.lives.add_line(line, evidence)
        own = replace(line, text=without_clients_words(line.text))
        event = oom_message.oom_event(own, evidence)
        if event:
            frames: tuple[Frame, ...] = ()
            if self.lives.events_now < _MOST_TRACEBACKS:
                frames = frames_above(
                    chain([line], self._lines_above(lines.data, start)), line.source
                )
            self.lives.add_event(event, named_method(line.text) + frames)
        for sign in signs_in(own, evidence):
            self.lives.add_sign(sign, line)

    def _evidence(self, lines: Lines, start: int, text: str) -> EvidenceLine:
        shown = text.strip()
        if len(shown) > _LONGEST_TEXT:
            shown = shown[:_LONGEST_TEXT] + " ..."
        return EvidenceLine(self._file, lines.number_at(start), shown)

    def _lines_above(self, data: bytes, start: int) -> Iterator[LogLine]:
        above = data[max(0, start - _MOST_ABOVE) : start]
        if len(above) < _MOST_ABOVE:
            above = self._above[-(_MOST_ABOVE - len(above)) :] + above
        for raw in reversed(above.split(b"\n")):
            text = decoded(without_endless_numbers(raw[:_LONGEST_LINE]))
            yield from reversed(list(log_lines(text)))
