"""Graphics cards by name: the memory that torch sees, bandwidth and arithmetic. Data.

Memory is `total_memory` as CUDA reports it, a little below what is on the box. Bandwidth and the
dense 16-bit arithmetic are the vendors' data sheets.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from proxy.vllm.launch_plan.problem import PlanError

GIB = 1 << 30
_UNITS = {"mib": 1 << 20, "gib": GIB, "mb": 10**6, "gb": 10**9, "tib": 1 << 40, "tb": 10**12}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")


@dataclass(frozen=True, slots=True)
class Card:
    """`bandwidth` in bytes, `flops` in operations a second; None where nobody said which card."""

    name: str
    memory: int
    bandwidth: float | None = None
    flops: float | None = None

    @property
    def is_a100(self) -> bool:
        return "a100" in self.name.lower()


def _card(name: str, gib: float, bandwidth_gb_s: float, tflops: float) -> Card:
    return Card(name, int(gib * GIB), bandwidth_gb_s * 1e9, tflops * 1e12)


_CARDS = (
    _card("T4", 14.6, 320, 65),
    _card("V100-16G", 15.8, 900, 112),
    _card("V100-32G", 31.7, 900, 112),
    _card("A10", 22.0, 600, 125),
    _card("A10G", 22.0, 600, 70),
    _card("A16", 14.6, 200, 18),
    _card("A30", 23.6, 933, 165),
    _card("A40", 44.4, 696, 150),
    _card("A100-40G", 39.4, 1555, 312),
    _card("A100-80G", 79.2, 2039, 312),
    _card("A800-80G", 79.2, 2039, 312),
    _card("L4", 22.0, 300, 121),
    _card("L20", 44.5, 864, 119),
    _card("L40", 44.4, 864, 181),
    _card("L40S", 44.4, 864, 362),
    _card("H20", 95.1, 4000, 148),
    _card("H100", 79.2, 3350, 989),
    _card("H100-PCIE", 79.2, 2039, 756),
    _card("H100-NVL", 93.1, 3938, 835),
    _card("H200", 139.8, 4800, 989),
    _card("H800", 79.2, 3350, 989),
    _card("GH200", 94.5, 4000, 989),
    _card("B200", 178.3, 8000, 2250),
    _card("B300", 267.0, 8000, 2250),
    _card("RTX-3090", 23.6, 936, 71),
    _card("RTX-4090", 23.5, 1008, 165),
    _card("RTX-5090", 31.4, 1792, 210),
    _card("RTX-A5000", 23.7, 768, 111),
    _card("RTX-A6000", 47.4, 768, 155),
    _card("RTX-6000-ADA", 47.5, 960, 182),
    _card("RTX-PRO-6000", 94.9, 1792, 504),
    _card("MI210", 63.9, 1638, 181),
    _card("MI250", 63.9, 1638, 181),
    _card("MI300X", 191.7, 5300, 1307),
    _card("MI325X", 255.7, 6000, 1307),
    _card("MI355X", 287.7, 8000, 2300),
)
_ALSO = {
    "A100": "A100-80G",
    "A6000": "RTX-A6000",
    "A5000": "RTX-A5000",
    "3090": "RTX-3090",
    "4090": "RTX-4090",
    "5090": "RTX-5090",
    "6000ADA": "RTX-6000-ADA",
    "H100-80G": "H100",
    "H100-SXM": "H100",
    "H200-141G": "H200",
    "V100": "V100-16G",
}


def _key(name: str) -> str:
    """`A100-SXM4-80GB`, `a100 80g` and `NVIDIA A100-80G` are one card."""
    name = name.upper().replace("NVIDIA", "").replace("GEFORCE", "").replace("TESLA", "")
    name = re.sub(r"SXM\d?|HBM\d?E?", "", name)
    return re.sub(r"[^A-Z0-9]", "", name).replace("GB", "G")


_BY_KEY = {_key(card.name): card for card in _CARDS}
_BY_KEY |= {_key(name): _BY_KEY[_key(target)] for name, target in _ALSO.items()}


def parse_card(text: str) -> Card:
    """`80GiB`, `24GB`, or a card's name. Raises PlanError."""
    card = _BY_KEY.get(_key(text))
    if card is not None:
        return card
    if _SIZE.fullmatch(text):
        return Card(text.strip(), parse_size(text, "--gpu", "; or name a card, as H100"))
    near = difflib.get_close_matches(_key(text), list(_BY_KEY), n=1, cutoff=0.5)
    hint = f"; did you mean {_BY_KEY[near[0]].name}?" if near else ""
    raise PlanError(f"--gpu {text!r}: no size, as 80GiB, and no card that is known here{hint}")


def parse_size(text: str, option: str, hint: str = "") -> int:
    """Bytes of `80GiB` or `24GB` (10^9). Raises PlanError, and for a bare number too."""
    found = _SIZE.fullmatch(text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        said = "no unit" if found and not found[2] else "not a size"
        raise PlanError(f"{option} {text!r}: {said}; write it as 80GiB, 80GB (10^9) or MiB{hint}")
    size = int(float(found[1]) * unit)
    if size <= 0:
        raise PlanError(f"{option} {text!r}: a size above 0 is needed")
    return size
