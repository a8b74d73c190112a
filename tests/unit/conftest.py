"""What unit tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

# A machine that runs other things too is slow now and then; that is no finding.
settings.register_profile(
    "shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared machine")


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No setting from outside, and an empty working directory, which is returned."""
    for name in list(os.environ):
        if name.upper().startswith("SLUICE_") or name == "WEB_CONCURRENCY":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
