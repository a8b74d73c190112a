from __future__ import annotations

from typing import get_args

from proxy.settings import Settings
from proxy.telemetry.log_format import LogFormat


def test_the_forms_are_those_that_the_setting_takes() -> None:
    words = get_args(Settings.model_fields["log_format"].annotation)
    assert {form.value for form in LogFormat} == set(words)
