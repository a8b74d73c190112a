"""A vLLM log, block after block: what it says of memory."""

from proxy.vllm.doctor.evidence import LogFindings


class LogScanner:
    """Holds what several logs said so far, in bounded memory.

    `feed` takes any cut of a file's bytes, `close` says that the file ends (a last line without
    its end counts then), `findings` may be asked for at any time, also between blocks.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._files: set[str] = set()

    def feed(self, block: bytes, file: str) -> None:
        """The next bytes of `file`, cut anywhere; `file` is what the evidence names."""
        self._bytes += len(block)
        self._files.add(file)

    def close(self, file: str) -> None:
        """No more bytes of `file` will come."""

    def findings(self) -> LogFindings:
        """All that was said so far."""
        return LogFindings(bytes=self._bytes)
