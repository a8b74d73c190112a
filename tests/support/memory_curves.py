"""Memory curves as nvidia-smi writes them, from a list of MiB."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1 << 20
GIB = 1 << 30
CARD_MIB = 24 * 1024
_BEGIN_S = 1_767_225_600.0

HEADER = "timestamp, memory.used [MiB], memory.total [MiB], utilization.gpu [%]"
START_UP = [4] * 5 + [500, 3000, 8000, 15000] + [15500] * 20 + [22000] * 5


def stamp(second: float) -> str:
    moment = datetime.fromtimestamp(_BEGIN_S + second, UTC)
    return f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def curve(used_mib: Iterable[float], period_s: float = 1.0, header: str = HEADER) -> list[str]:
    """One card of 24 GiB, a sample each period."""
    rows = (
        f"{stamp(i * period_s)}, {int(used)} MiB, {CARD_MIB} MiB, 87 %"
        for i, used in enumerate(used_mib)
    )
    return [header, *rows]


def wavy(level_mib: float, samples: int, by: float = 20.0) -> list[float]:
    """A level that trembles, the same way each time."""
    return [level_mib + by * ((i * 7919) % 13 - 6) / 6 for i in range(samples)]


TABLE = """\
Fri Apr 24 08:44:42 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.126.09             Driver Version: 580.126.09     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   34C    P0             114W / 700W |   76543MiB /  81559MiB |     97%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla V100-SXM2...            Off  |   00000000:3B:00.0 Off |                    0 |
| N/A   30C    P0              70W / 700W |    9000MiB /  16160MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            4711      C   VLLM::EngineCore                      76520MiB |
|    1   N/A  N/A            1938      G   /usr/lib/xorg/Xorg                        4MiB |
|    1   N/A  N/A            2048      C   /opt/my trainer/bin/python             8990MiB |
+-----------------------------------------------------------------------------------------+
"""
OLD_TABLE = """\
| NVIDIA-SMI 450.80.02    Driver Version: 450.80.02    CUDA Version: 11.0     |
|   0  Tesla V100-SXM2...  Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   34C    P0    37W / 300W |   1234MiB / 16160MiB |      0%      Default |
|    0     12345      C   python                           1230MiB |
"""
