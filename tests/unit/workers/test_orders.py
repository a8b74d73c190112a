from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy.env_values.key_digest import KeyDigest
from proxy.settings import Settings
from proxy.workers.orders import Orders
from tests.support.gateway_in_memory import settings

if TYPE_CHECKING:
    from pathlib import Path


def again(orders: Orders) -> Orders:
    return Orders.read(orders.written())


def a_value_of_each_kind(tmp_path: Path) -> dict[str, Any]:
    for name in ("keys", "trace"):
        (tmp_path / name).write_text("b:sk-2\n")
    (tmp_path / "engines").write_text("http://a:8000\n")
    return {
        "upstreams_file": tmp_path / "engines",
        "api_keys_file": tmp_path / "keys",
        "trace_file": tmp_path / "trace",
        "api_keys": "gold:k1",
        "upstream_api_key": "sk-engine",
        "redis_url": "redis://:secret@store:6379/1",
        "max_num_seqs": 64,
        "max_in_flight": 7,
        "max_kv_tokens": "auto",
        "overload_status": 429,
        "tenant_weights": "gold:3",
        "expose": "GET /load",
        "total_timeout": 5,
        "workers": 3,
    }


def test_orders_keep_what_was_set_and_the_secrets_in_it(tmp_path: Path) -> None:
    values = a_value_of_each_kind(tmp_path)
    told = Settings(_env_file=None, _env_prefix="NOT_FROM_OUTSIDE_", **values)
    told.remember_sources({"max_in_flight": "flag"})
    orders = Orders(told, 2, 1.5, waits_for_seats=True)
    read = again(orders)
    assert read == orders
    assert read.settings.client_keys == {"gold": KeyDigest.of("k1"), "b": KeyDigest.of("sk-2")}
    assert read.settings.upstream_api_key == told.upstream_api_key
    assert read.settings.source_of("max_in_flight") == "flag"
    assert read.settings.places(3) == told.places(3), "it knows what was not set"
    for field in Settings.model_fields:
        one, other = getattr(read.settings, field), getattr(told, field)
        assert (one, type(one)) == (other, type(other)), field


def test_the_keys_file_is_not_read_again(tmp_path: Path) -> None:
    """A worker that is started anew is like the others, whatever the files say by then."""
    file = tmp_path / "keys"
    file.write_text("a:sk-1")
    written = Orders(settings(api_keys_file=file), 1, 0.0).written()
    file.unlink()
    assert Orders.read(written).settings.client_keys == {"a": KeyDigest.of("sk-1")}


def test_client_keys_are_not_in_it(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("a:sk-canary-1")
    written = Orders(settings(api_keys="b:sk-canary-2", api_keys_file=file), 1, 0.0).written()
    assert b"canary" not in written


@pytest.mark.parametrize("written", [b"", b"hello", b"\x80", msgspec.msgpack.encode({"number": 1})])
def test_anything_else_is_none(written: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Orders.read(written)
