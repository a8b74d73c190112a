"""Judges a compose file by Compose's own schema, without Docker.

    python scripts/check_compose.py SCHEMA FILE

Exit 1, and a line for each fault with where it is, if the file does not fit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jsonschema import Draft201909Validator

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of a file's top level, newer than the last schema that is in a package (docker-compose 1.29.2).
_NEWER = {"name"}


def faults(schema: dict[str, Any], text: str) -> Iterator[str]:
    project = yaml.safe_load(text)
    if not isinstance(project, dict):
        yield "it is no mapping"
        return
    known = {key: value for key, value in project.items() if key not in _NEWER}
    for error in Draft201909Validator(schema).iter_errors(known):
        yield f"{error.json_path}: {error.message}"


def main(schema: str, file: str) -> int:
    found = list(faults(json.loads(Path(schema).read_text()), Path(file).read_text()))
    for fault in found:
        print(f"{file}: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
