"""Which lines of a block are worth reading: a search for few words, at memory speed.

Each word costs half a second a gigabyte, and each line that holds one some microseconds. So words
that come only at certain times are looked for only then, and those with a rare byte by that byte.
"""

from collections.abc import Iterable, Iterator

from proxy.vllm.doctor import start_up_facts, stats_lines
from proxy.vllm.doctor.needle import Needle

TROUBLE = (b"emory", b"rror")
BEGINNING = Needle(b"LLM engine", rare=0)
_STATS = Needle(stats_lines.NEEDLE, rare=1)
# Looked for near the beginning of a file or of an engine's life.
AT_START = (b"args: ", *(needle.encode() for needle in start_up_facts.NEEDLES))
# Looked for where an engine's life ends: at the file's end, and before the next beginning, where
# the next life's arguments stand too.
AT_END = (
    *(b"illed", b"xit", b"died", b"output_handler", b"No space left", b"args: "),
    *(b"SIGSEGV", b"egmentation", b"ignal (11)", b"Watchdog caught", b"hutdown", b"hutting down"),
)
# Looked for in a block that has an error.
AT_ERRORS = (b"Dumping s", b"bad_alloc", *AT_END)
START_BYTES = 32 << 20

_ANSWERS = (b"Error", b"Error\r", b"Error\x1b[0m")
_TALKS = (b"Receiv", b"Add")  # ... ed request
_CLIENTS_WITHIN = 512  # of a line: what the carriers put before it is shorter


class Prefilter:
    """Remembers how far the last beginning is, in bytes."""

    def __init__(self) -> None:
        self._start_left = START_BYTES

    def lines_of_interest(self, data: bytes) -> tuple[list[tuple[int, int]], bool]:
        """Begin and end of each such line, in order; and whether an engine begins in `data`."""
        found: dict[int, int] = {}
        for word in TROUBLE:
            _add(data, _places(data, word), found)
        in_trouble = any(found.values())
        begins = _add(data, BEGINNING.places(data), found)
        _add(data, _STATS.places(data), found)
        if begins:
            self._start_left = START_BYTES
        for word in self._further(in_trouble, begins):
            _add(data, _places(data, word), found)
        self._start_left -= len(data)
        return sorted((start, end) for start, end in found.items() if end), begins

    def _further(self, in_trouble: bool, begins: bool) -> tuple[bytes, ...]:
        start = AT_START if self._start_left > 0 else ()
        end = AT_ERRORS if in_trouble else AT_END if begins else ()
        return (*start, *end)


def lines_at_an_end(data: bytes) -> list[tuple[int, int]]:
    """The lines that may say how a life ended, and with which arguments the next begins."""
    found: dict[int, int] = {}
    for word in AT_END:
        _add(data, _places(data, word), found)
    return sorted((start, end) for start, end in found.items() if end)


def _places(data: bytes, word: bytes) -> Iterator[int]:
    """One in each line that holds the word."""
    at = data.find(word)
    while at >= 0:
        yield at
        end = data.find(b"\n", at)
        at = data.find(word, end) if end >= 0 else -1


def _add(data: bytes, places: Iterable[int], found: dict[int, int]) -> bool:
    """Adds the lines at these places; an end of 0 stands for a line that says nothing."""
    any_new = False
    end = -1
    for at in places:
        if at < end:
            continue  # the same line
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        if end < 0:
            end = len(data)
        if start not in found:
            talk = _is_talk(data, start, end)
            found[start] = 0 if talk else end
            any_new = any_new or not talk
    return any_new


def _is_talk(data: bytes, start: int, end: int) -> bool:
    """A client's words, or the answer "500 Internal Server Error": a crowd that says nothing."""
    head = start + _CLIENTS_WITHIN
    at = data.find(b"ed request ", start, min(head, end))
    if at >= 0 and data.endswith(_TALKS, start, at):
        return True
    return data.endswith(_ANSWERS, start, end) and data.find(b" HTTP/1", start, end) >= 0
