from __future__ import annotations

import pytest

from tests.bench.processes import NotMeasuredError
from tests.bench.wrk import WrkReport

FINE = "  24466 requests in 2.00s, 11.04MB read\nRequests/sec:  12227.72\nTransfer/sec:  5.52MB\n"
REFUSED = FINE + "  Non-2xx or 3xx responses: 24460\n"
BROKEN = FINE + "  Socket errors: connect 0, read 3, write 0, timeout 1\n"


def test_a_report_is_read() -> None:
    assert WrkReport.read(FINE) == WrkReport(12227.72, 24_466, 0, "")
    assert WrkReport.read(REFUSED).refused == 24_460


@pytest.mark.parametrize("text", [REFUSED, BROKEN, FINE.replace("24466", "0")])
def test_errors_do_not_pass_for_speed(text: str) -> None:
    with pytest.raises(NotMeasuredError):
        WrkReport.read(text).without_errors()


def test_what_is_no_report_is_shown() -> None:
    with pytest.raises(NotMeasuredError, match="unable to connect"):
        WrkReport.read("unable to connect to 127.0.0.1:1 Connection refused")
