from __future__ import annotations

from proxy.telemetry.sharing_view import SharingView


def test_nothing_is_known_until_it_is_told() -> None:
    assert SharingView() == SharingView(is_store_up=False, gateways=0, age_s=None, leases={})
