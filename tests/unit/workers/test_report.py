from __future__ import annotations

import asyncio

import msgspec
import pytest

from proxy.admission.snapshot import TenantSnapshot
from proxy.app import build
from proxy.cli.worker import report_of
from proxy.workers.report import decode, encode
from tests.support.gateway_in_memory import settings
from tests.support.worker_reports import report, totals


def test_a_report_survives_the_way() -> None:
    told = report(
        tenants=(TenantSnapshot("gold", 2, 1, 1.5),),
        refusals=({"at": 1.5, "request_id": "r", "waited_s": None},),
        totals=totals(3, (0.1, 7.0), queue_full=2),
        binding_limit=None,
    )
    assert decode(encode(told)) == told


def test_so_does_that_of_a_whole_application() -> None:
    async def scenario() -> None:
        application = build(settings(), poll_engines=False)
        application.metrics.route("completions").arrived(attempt_is_retry=False)
        told = report_of(application)
        assert decode(encode(told)) == told
        assert "sluice_in_flight" in {family.name for family in told.page}

    asyncio.run(scenario())


def test_anything_else_is_no_report() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b"\x01")
