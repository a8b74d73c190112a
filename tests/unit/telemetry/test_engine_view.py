from __future__ import annotations

import dataclasses

from proxy.telemetry.engine_view import EngineView


def test_nothing_is_known_about_an_engine_until_it_is_told() -> None:
    view = EngineView()
    assert all(getattr(view, field.name) is None for field in dataclasses.fields(view))
