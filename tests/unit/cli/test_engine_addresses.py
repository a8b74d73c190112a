from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.cli.engine_addresses import engine_addresses
from tests.support.gateway_in_memory import settings
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Mapping


class Names:
    """What a resolver would say, by name."""

    def __init__(self, known: Mapping[str, list[str]]) -> None:
        self._known = known

    async def addresses(self, host: str) -> list[str]:
        if host not in self._known:
            raise OSError("unknown")
        return self._known[host]


def found(urls: str, known: Mapping[str, list[str]], **values: object) -> dict[str, str]:
    """Where each engine is connected to, by its name."""

    async def scenario() -> dict[str, str]:
        chosen = settings(**{"upstream_urls": urls, "dns_interval": 5, **values})
        engines = await engine_addresses(chosen, Names(known))
        return {name: engine.connects_to for name, engine in engines.items()}

    return run(scenario())


def test_an_engine_has_the_name_that_is_written_for_it() -> None:
    assert found("http://gpu:1/v1/, http://10.0.0.9", {"gpu": ["10.0.0.1"]}) == {
        "http://gpu:1/v1/": "10.0.0.1",
        "http://10.0.0.9": "10.0.0.9",
    }


def test_a_host_with_several_addresses_is_as_many_engines() -> None:
    assert found("http://gpus:1", {"gpus": ["10.0.0.2", "10.0.0.1"]}) == {
        "http://gpus:1#10.0.0.1": "10.0.0.1",
        "http://gpus:1#10.0.0.2": "10.0.0.2",
    }
    several = {"gpus": ["10.0.0.2", "10.0.0.1"]}
    assert found("http://gpus:1", several, dns_interval=0) == {"http://gpus:1": "gpus"}


def test_what_cannot_be_looked_up_is_one_engine() -> None:
    assert found("http://gpu:1", {}) == {"http://gpu:1": "gpu"}
    assert found("http://gpu:1", {"gpu": []}) == {"http://gpu:1": "gpu"}
