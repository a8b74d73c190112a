"""A log, block after block."""

from proxy.vllm.doctor.log_scanner import LogScanner


def test_bytes_are_counted_over_all_blocks() -> None:
    scanner = LogScanner()
    scanner.feed(b"one\n", "a.log")
    scanner.feed(b"two\n", "b.log")
    assert scanner.findings().bytes == 8
