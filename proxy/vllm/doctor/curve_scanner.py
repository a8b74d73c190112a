"""A memory curve's file, block after block: what each card's memory did, in words and figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.doctor.curve_words import in_words
from proxy.vllm.doctor.evidence import CurveFindings, EvidenceLine, GpuCurve, Pattern
from proxy.vllm.doctor.recorded_figures import RecordedFigures
from proxy.vllm.doctor.text import Lines
from proxy.vllm.memory_curve.lives import lives_of
from proxy.vllm.memory_curve.reader import CurveReader
from proxy.vllm.memory_curve.series import MemorySeries
from proxy.vllm.memory_curve.shape import Shape, Verdict, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.vllm.memory_curve.lives import Life
    from proxy.vllm.memory_curve.reader import MemorySample

_MOST_GPUS = 64  # more, and the index is no index

_PATTERNS = {
    Shape.CLIMB: Pattern.STEADY,
    Shape.FLAT_HIGH: Pattern.STEADY,
    Shape.FLAT: Pattern.STEADY,
    Shape.SPIKE: Pattern.TRANSIENT,
    Shape.LATE_JUMP: Pattern.TRANSIENT,
    Shape.STEP: Pattern.UNKNOWN,
    Shape.START_UP: Pattern.UNKNOWN,
    Shape.TOO_SHORT: Pattern.UNKNOWN,
}
_MOVES = (Shape.CLIMB, Shape.SPIKE, Shape.LATE_JUMP)


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU of one file. `life` tells most of its lives, `verdict` what it looks like."""

    curve: GpuCurve
    note: str
    evidence: tuple[EvidenceLine, ...] = ()
    share: float = 0.0  # of the card's memory, at the peak
    moves: bool = False


class MemoryScanner(ABC):
    """One file. `feed` takes any cut of its bytes, in UTF-8; findings may be asked at any time."""

    def __init__(self, file: str) -> None:
        self.samples = 0
        self.figures = RecordedFigures()
        self._file = file
        self._lines = Lines()
        self._series: dict[int, MemorySeries] = {}

    def feed(self, block: bytes) -> None:
        for line in self._lines.feed(block):
            self._take(self._read(line))

    def close(self) -> None:
        self._take(self._rest(self._lines.rest.decode(errors="replace")))

    def cards(self) -> list[Card]:
        """In the order of their index; those whose memory nobody told are left out."""
        told = sorted(item for item in self._series.items() if item[1].bins)
        return [_card(gpu, series, self._file) for gpu, series in told]

    def evidence(self) -> list[EvidenceLine]:
        return self.figures.evidence(self._file)

    def _take(self, samples: Iterable[MemorySample]) -> None:
        for sample in samples:
            self.samples += 1
            self.figures.add(sample)
            if sample.gpu in self._series or len(self._series) < _MOST_GPUS:
                self._series.setdefault(sample.gpu, MemorySeries()).add(sample)

    @abstractmethod
    def _read(self, line: str) -> Iterable[MemorySample]:
        """A whole line."""

    @abstractmethod
    def _rest(self, line: str) -> Iterable[MemorySample]:
        """The end of the file, perhaps with a line that has no end."""


class CurveScanner(MemoryScanner):
    """nvidia-smi's CSV, or the file of `sluice record`."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._reader = CurveReader()

    def _read(self, line: str) -> Iterable[MemorySample]:
        return self._reader.feed(line)

    def _rest(self, line: str) -> Iterable[MemorySample]:
        return self._reader.close(line)


def curve_findings(scanners: Iterable[MemoryScanner]) -> CurveFindings | None:
    """Of all files together. The card that decides is the fullest of those that moved, and the
    fullest of all where none did: an OOM happens on one card."""
    read = [scanner for scanner in scanners if scanner.samples]
    if not read:
        return None
    cards = [card for scanner in read for card in scanner.cards()]
    deciding = max(cards, key=lambda card: (card.moves, card.share), default=None)
    figures = [scanner.figures for scanner in read]
    away = sum(figure.went_away for figure in figures)
    notes = [card.note for card in cards]
    if away:
        notes.append(f"the engine stopped answering {away} times while it was recorded")
    return CurveFindings(
        pattern=deciding.curve.pattern if deciding else Pattern.UNKNOWN,
        gpus=tuple(card.curve for card in cards),
        evidence=tuple(
            [line for card in cards for line in card.evidence]
            + [line for scanner in read for line in scanner.evidence()]
        ),
        notes=tuple(notes),
        peak_kv_usage=_peak(figures, "engine.kv_cache_usage"),
        preemptions=_gained(figures, "engine.preemptions_total"),
        peak_running=_peak(figures, "engine.running"),
        peak_waiting=_peak(figures, "engine.waiting"),
    )


def _card(gpu: int, series: MemorySeries, file: str) -> Card:
    peak = series.peak or 0
    scale = series.total or max(peak, 1)
    lives = lives_of(series.bins, scale)
    if not lives:
        curve = GpuCurve(gpu, series.name, peak, series.total)
        return Card(curve, f"GPU {gpu}: next to nothing was in its memory", share=peak / scale)
    known = series.total is not None
    verdicts = [(life, shape_of(life, scale, total_known=known)) for life in lives]
    life, verdict = _telling(verdicts)
    pattern = _pattern(life, verdict)
    shape = verdict.shape.name.lower()
    return Card(
        GpuCurve(gpu, series.name, peak, series.total, pattern, shape),
        in_words(gpu, series, verdicts, verdict),
        tuple(_evidence(file, life, verdict)),
        peak / scale,
        verdict.shape in _MOVES,
    )


def _telling(verdicts: Sequence[tuple[Life, Verdict]]) -> tuple[Life, Verdict]:
    """Of several lives the last that moved; else the last that ended; else the last."""
    moved = [each for each in verdicts if each[1].shape in _MOVES]
    ended = [each for each in verdicts if each[0].ended and _pattern(*each) is not Pattern.UNKNOWN]
    return (moved or ended or verdicts)[-1]


def _pattern(life: Life, verdict: Verdict) -> Pattern:
    """Flat until it was gone: whatever it died of was too short to be seen, or no memory."""
    if verdict.shape is Shape.FLAT and life.ended:
        return Pattern.UNKNOWN
    return _PATTERNS[verdict.shape]


def _evidence(file: str, life: Life, verdict: Verdict) -> Iterable[EvidenceLine]:
    yield EvidenceLine(file, verdict.top.high_line, verdict.top.high_text)
    last = life.bins[-1]
    if life.ended and last.last_line != verdict.top.high_line:
        yield EvidenceLine(file, last.last_line, last.last_text)


def _peak(figures: Sequence[RecordedFigures], name: str) -> float | None:
    told = (figure.peaks.get(name) for figure in figures)
    return max((value for value in told if value is not None), default=None)


def _gained(figures: Sequence[RecordedFigures], name: str) -> float | None:
    told = [figure.gained[name] for figure in figures if name in figure.gained]
    return sum(told) if told else None
