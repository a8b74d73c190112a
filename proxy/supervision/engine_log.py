"""What one life of the engine writes: shown line by line, and read by the doctor as it comes.

Nothing is kept but what the doctor needs, however long the engine lives.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.evidence import Findings, StartUpFacts
from proxy.vllm.doctor.log_scanner import LogScanner

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.vllm.doctor.evidence import Diagnosis

NAME = "engine"
_LONGEST_LINE = 64 << 10
# Progress bars end their lines so.
_LINE_END = re.compile(rb"[\r\n]+")


class EngineLog:
    """`show` gets every line, without its end."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._scanner = LogScanner()
        self._rest = b""

    def feed(self, block: bytes) -> None:
        """The next bytes, cut anywhere."""
        self._scanner.feed(block, NAME)
        *lines, self._rest = _LINE_END.split(self._rest + block)
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._take(line)

    def close(self) -> None:
        """No more will come."""
        self._scanner.close(NAME)
        self._take(self._rest)
        self._rest = b""

    def facts(self) -> StartUpFacts:
        """What the engine has said of itself so far."""
        lives = self._scanner.findings().lives
        return lives[-1].facts if lives else StartUpFacts()

    def diagnosis(self) -> Diagnosis:
        return diagnose(Findings(log=self._scanner.findings()))

    def _take(self, line: bytes) -> None:
        if line.strip():
            self._show(line.decode("utf-8", "replace"))
