from __future__ import annotations

import pytest

from proxy.config import SettingsError, load_settings

pytestmark = pytest.mark.usefixtures("clean_environment")


def test_every_request_has_a_line_unless_told_otherwise() -> None:
    assert load_settings({"max_num_seqs": 8}).access_log_sample == 1
    assert load_settings({"max_num_seqs": 8, "access_log_sample": "0.05"}).access_log_sample == 0.05


@pytest.mark.parametrize("share", ["-0.1", "1.01", "nan", "some"])
def test_a_share_is_from_0_to_1(share: str) -> None:
    with pytest.raises(SettingsError, match=r"SLUICE_ACCESS_LOG_SAMPLE=.*: must be a number"):
        load_settings({"max_num_seqs": 8, "access_log_sample": share})


def test_nothing_is_traced_unless_a_collector_is_named() -> None:
    settings = load_settings({"max_num_seqs": 8})
    assert (settings.otlp_endpoint, settings.otlp_sample) == (None, 1)
    named = load_settings({"max_num_seqs": 8, "otlp_endpoint": "http://collector:4318/"})
    assert named.otlp_endpoint == "http://collector:4318"
