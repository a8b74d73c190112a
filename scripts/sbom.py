"""A software bill of materials of what the image is made of: CycloneDX, from the lock.

    python scripts/sbom.py deploy/requirements.lock > build/sbom.cdx.json

The same lock gives the same bytes: no moment is in it, and its serial number is of its content.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAME = "vllm-sluice"
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?P<marker>\s*;[^\\]*)?")
_HASH = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})")
_ASKED_FOR_BY = re.compile(r"^    #(?: via| {2,})\s*(?P<name>[A-Za-z0-9._-]+)")


@dataclass
class Pin:
    """One package of the lock. `asked_for_by`: the packages that need it."""

    name: str
    version: str
    hashes: list[str] = field(default_factory=list)
    asked_for_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Pin]:
    """Raises ValueError for a line that is nothing a lock has: what is not understood is not left
    out in silence."""
    pins: list[Pin] = []
    for number, line in enumerate(text.splitlines(), 1):
        if pin := _PIN.match(line):
            pins.append(Pin(pin["name"].lower().replace("_", "-"), pin["version"]))
        elif found := _HASH.search(line):
            pins[-1].hashes.append(found["digest"])
        elif found := _ASKED_FOR_BY.match(line):
            pins[-1].asked_for_by.append(found["name"])
        elif line.strip() and not line.lstrip().startswith("#"):
            raise ValueError(f"line {number} is no pin: {line}")
    return pins


def bill(pins: list[Pin], version: str) -> dict[str, Any]:
    """The document, without its serial number."""
    ours = f"pkg:pypi/{NAME}@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _component(ours, NAME, version, "application")},
        "components": [
            {
                **_component(pin.purl, pin.name, pin.version, "library"),
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in pin.hashes],
            }
            for pin in pins
        ],
        "dependencies": [
            {"ref": ours, "dependsOn": [pin.purl for pin in pins if NAME in pin.asked_for_by]},
            *(
                {
                    "ref": pin.purl,
                    "dependsOn": [one.purl for one in pins if pin.name in one.asked_for_by],
                }
                for pin in pins
            ),
        ],
    }


def _component(purl: str, name: str, version: str, kind: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def as_text(document: dict[str, Any]) -> str:
    content = json.dumps(document, sort_keys=True)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, content)
    return json.dumps({**document, "serialNumber": f"urn:uuid:{serial}"}, indent=2) + "\n"


def own_version() -> str:
    found = re.search(r'__version__ = "(.+)"', (ROOT / "proxy" / "__init__.py").read_text())
    if found is None:
        raise ValueError("proxy/__init__.py tells no version")
    return found[1]


if __name__ == "__main__":
    lock = Path(sys.argv[1]).read_text()
    sys.stdout.write(as_text(bill(read_lock(lock), own_version())))
