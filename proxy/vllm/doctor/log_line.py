"""One line of a log, freed of what its carriers wrapped around it.

A line of vLLM reaches a file through journald, docker, compose, kubectl, Loki, Ray, a cloud's
log export, or several of them. What is left is what the engine wrote, and who in it wrote.
"""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_ANSI = re.compile(
    r"(?:\x1b|#033|\^\[|\\x1b|\\u001b|\\033)?\[\d{0,3}(?:;\d{1,3})*m"
    r"|\x1b\[[0-9;?]*[A-Za-z]"
)
_REPEATED = re.compile(r"\[repeated \d+x across (?:cluster|all)[^\]]*\]")
_STAMP = (
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"(?:[ ]?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?"
)
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|DEFAULT)"
_CARRIERS = re.compile(
    rf"""(?:
      \s+
    | >[ ]
    | │
    | \[(?:Error|Warning|Info|Debug|error|warning|info|debug)\]
    | \(Process\)
    | [^|]{{0,80}}\d+%\|[^|]*\|[ ]?\d+/\d+[ ]\[[^\]]*\]
    | {_STAMP}[ ](?:[\w.-]+[ ])?[\w.@/-]+\[[\w.-]+\]:[ ]?
    | {_STAMP}[ ][\w.-]+/[\w./-]+/[0-9a-f]{{16,}}[ ]
    | <\d{{1,3}}>1[ ]{_STAMP}(?:[ ]\S+){{4}}[ ](?:-|\[[^\]]*\])[ ]
    | {_STAMP}(?:[ ](?:stdout|stderr)[ ][FP])?[ :]?
    | (?:\w{{3}}[ ])?\w{{3}}[ ]+\d{{1,2}}[ ]\d\d:\d\d:\d\d(?:\.\d+)?
        [ ][\w.-]+[ ][\w.@/-]+(?:\[\d+\])?:[ ]?
    | (?:\w{{3}}[ ])?\w{{3}}[ ]+\d{{1,2}}[ ]\d\d:\d\d:\d\d(?:\.\d+)?[ ]
    | {_LEVEL}[ ]\d\d-\d\d[ ]\d\d:\d\d:\d\d(?:\.\d+)?[ ]\[?[\w./<>-]+:\d+\]?
    | {_LEVEL}[ ]{_STAMP}[ ](?:\[[^\]]*\][ ]?)*
    | \[resource\.labels[^\]]*\]
    | \[pod/[^\]]*\]
    | \[\d+,\d+\]<\w+>:
    | (?:[\w.][\w.-]*[ ]+)?\|[ ]?
    | \d{{1,3}}:[ ](?=\S)
    | (?P<source>\([A-Z]\w*[ ](?:[^()]*\b)?(?:pid|ip|rank)=[^()]*\)
        |\([A-Z]\w*?_?(?:DP|TP|PP|EP)\d\w*\)|\[rank\d+\]:)
    )""",
    re.VERBOSE,
)
_RANK = re.compile(r"rank=?\s?(\d+)|((?:(?:DP|PP|TP|EP|CP|DCP|PCP)\d+_?)+)")
_CARRIED = ("log", "message", "msg", "MESSAGE", "line", "textPayload", "@message", "body")
_DEEPEST = 3
_WORD = re.compile(r"[A-Za-z]{2}")
_NO_WORDS = re.compile(rf"{_STAMP}|{_LEVEL}|\w*\d\w*")


@dataclass(frozen=True, slots=True)
class LogLine:
    """What was written, and by which process of the engine."""

    text: str
    source: str = ""

    @property
    def rank(self) -> str | None:
        """As the engine names it: `TP2_EP2`, `rank 1`; None when it names none."""
        found = _RANK.search(self.source)
        if found is None:
            return None
        return f"rank {found[1]}" if found[1] else found[2].rstrip("_")

    @property
    def process(self) -> str:
        """The source without its pid, which changes with every start."""
        return self.source.partition(" ")[0].strip("()[]:")


def decoded(line: bytes) -> str:
    """Whatever bytes came, as text; those of no known meaning are replaced."""
    return line.decode("utf-8", "replace").replace("\0", "").strip("\r\n")


def log_lines(raw: str) -> Iterator[LogLine]:
    """The lines that one line of a file carries: one, or several where it is a JSON record."""
    for text in _carried_texts(raw, 0):
        yield stripped(text)


def _carried_texts(raw: str, depth: int) -> Iterator[str]:
    start = raw.find("{")
    if depth < _DEEPEST and 0 <= start <= 64 and raw.rstrip().endswith("}"):
        texts = _record_texts(raw[start:])
        if texts:
            for text in texts:
                for line in text.splitlines():
                    yield from _carried_texts(line, depth + 1)
            return
    yield _telling_cell(raw) if raw.startswith('"') else raw


def _telling_cell(row: str) -> str:
    """A table's export quotes each cell: the one with the most words is the line."""
    try:
        cells = next(csv.reader([row.rstrip()], skipinitialspace=True))
    except (csv.Error, StopIteration):
        return row
    telling = [cell for cell in cells if _WORD.search(cell) and not _NO_WORDS.fullmatch(cell)]
    # Of two with as many words the later one: the message stands behind who wrote it.
    return max(reversed(telling), key=lambda cell: len(cell.split()), default=row)


def _record_texts(record: str) -> list[str]:
    try:
        fields = json.loads(record)
    except ValueError:
        return []
    if not isinstance(fields, dict):
        return []
    names = (*_CARRIED, "exc_info", "exception", "stack_trace")
    texts = [fields[name] for name in names if isinstance(fields.get(name), str)]
    inner = fields.get("jsonPayload")
    if isinstance(inner, dict):
        texts += [inner[name] for name in _CARRIED if isinstance(inner.get(name), str)]
    return [text for text in texts if text.strip()]


def stripped(raw: str) -> LogLine:
    """Without stamps, levels and colours; the innermost process tag is the source."""
    text = _REPEATED.sub("", _ANSI.sub("", raw))
    at, source = 0, ""
    while found := _CARRIERS.match(text, at):
        if found.end() == at:
            break
        at = found.end()
        source = found["source"] or source
    return LogLine(text[at:].rstrip("│ \t\r\n"), source)
