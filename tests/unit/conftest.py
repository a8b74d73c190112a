"""What unit tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No setting from outside, and an empty working directory, which is returned."""
    for name in list(os.environ):
        if name.upper().startswith("SLUICE_") or name == "WEB_CONCURRENCY":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
