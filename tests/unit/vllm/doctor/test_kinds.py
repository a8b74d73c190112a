from __future__ import annotations

import pytest

from proxy.vllm.doctor.kinds import Kind, kind_of, packed_by
from tests.support.memory_curves import curve

COMMAND = b"$ nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu --format=csv -l 1\n"
LOG = b"(APIServer pid=1) INFO 12-02 14:26:32 [api.py:1] vLLM server version 0.32.0\n" * 3
DMESG = b"[  100.3] Memory cgroup out of memory: Killed process 123 (python3) total-vm:1kB\n"
PAGE = b"# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n"
TABLE = b"+----+\n| NVIDIA-SMI 550.54  Driver Version: 550.54 |\n| 20000MiB / 24576MiB |\n"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("\n".join(curve([1, 2])).encode(), Kind.CURVE),
        (COMMAND + "\n".join(curve([1, 2])).encode(), Kind.CURVE),
        ("\n".join(curve([20000, 20100])[1:]).encode(), Kind.CURVE),
        (COMMAND, Kind.TEXT),
        (LOG, Kind.TEXT),
        (LOG + b"x" * 60 + b"\xff\xfe\x00\n", Kind.TEXT),
        (DMESG, Kind.TEXT),
        (PAGE, Kind.PAGE),
        (b'vllm:num_requests_running{engine="0"} 3.0\nsluice_queue_depth 0\n', Kind.PAGE),
        (LOG + PAGE, Kind.TEXT),
        (TABLE, Kind.TABLE),
        (b"\x7fELF\x02\x01\x01" + bytes(range(64)) * 10, Kind.BINARY),
        (bytes(1000), Kind.BINARY),
        (b"", Kind.EMPTY),
        (b" \r\n\n", Kind.EMPTY),
    ],
)
def test_a_file_is_what_it_begins_with(head: bytes, kind: Kind) -> None:
    assert kind_of(head) is kind


def test_who_packed_a_file_otherwise_is_told_how_to_unpack_it() -> None:
    assert "zstd -dc" in (packed_by(b"\x28\xb5\x2f\xfd...") or "")
    assert packed_by(b"INFO") is None
