"""Engines that are added and removed while requests run."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from proxy import engine_fleet
from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Reason
from proxy.admission.request import AdmissionRequest as Request
from proxy.admission.snapshot import NO_DEMAND
from proxy.engine_fleet import EngineFleet
from proxy.openai_api.measure import Measured
from proxy.settings import Settings
from proxy.shared_limit.lease_keeper import LeaseKeeper
from proxy.shared_limit.memory_store import MemoryStore
from proxy.upstream.address import UpstreamAddress
from proxy.vllm.poller import EnginePoller
from tests.support.admission import Holder, RecordingObserver, turns
from tests.support.engine_transport import ScriptedEngine, late, ok, refused
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.upstream.port import Upstream

pytestmark = pytest.mark.usefixtures("clean_environment")


class Client:
    """What stands for an HTTP client: it can be closed, which may take a while."""

    def __init__(self, address: UpstreamAddress, close_s: float) -> None:
        self.address = str(address)
        self.closed_at: float | None = None
        self._close_s = close_s
        self.moves: list[str] = []

    def move(self, address: UpstreamAddress) -> None:
        self.moves.append(address.ip)

    async def aclose(self) -> None:
        await asyncio.sleep(self._close_s)
        self.closed_at = now()


class Network(httpx.AsyncBaseTransport):
    """What pollers find at each host."""

    def __init__(self) -> None:
        self.engines: dict[str, ScriptedEngine] = {}

    def serve(self, host: str, model: str = "m", max_model_len: int = 64) -> ScriptedEngine:
        card = {"id": model, "max_model_len": max_model_len}
        page = json.dumps({"data": [card]}).encode()
        engine = self.engines[host] = ScriptedEngine({"/health": ok(), "/v1/models": ok(page)})
        return engine

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        engine = self.engines.get(request.url.host)
        if engine is None:
            return await refused(request)
        return await engine.handle_async_request(request)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    found = Network()
    polling = functools.partial(EnginePoller, transport=found)
    monkeypatch.setattr(engine_fleet, "EnginePoller", polling)
    return found


class Stand:
    """A fleet with its controller on the running loop's clock, two seats an engine."""

    def __init__(
        self,
        *hosts: str,
        poll: bool = False,
        close_s: float = 0.0,
        leases: LeaseKeeper | None = None,
        **values: object,
    ) -> None:
        given: dict[str, Any] = {"max_in_flight": 2, "max_queue_depth": 50, **values}
        settings = Settings(**given)
        self.loop = asyncio.get_running_loop()
        self.clients: list[Client] = []
        self.counts: list[tuple[int, int]] = []
        self.holders: list[Holder] = []
        self.fleet = EngineFleet(
            settings,
            lambda address: self._client(address, close_s),
            self.loop.time,
            poll=poll,
            leases=leases,
        )
        self.controller = AdmissionController(
            {}, settings.places, self.loop.time, RecordingObserver()
        )
        self.fleet.attach(self.controller, counted=lambda *counts: self.counts.append(counts))
        self.set(*hosts)

    def _client(self, address: UpstreamAddress, close_s: float) -> Upstream:
        self.clients.append(Client(address, close_s))
        return cast("Upstream", self.clients[-1])

    def set(self, *hosts: str) -> None:
        self.fleet.set(UpstreamAddress.parse(f"http://{host}") for host in hosts)

    async def ask(self, count: int = 1, model: str | None = None) -> list[Holder]:
        asked = [Holder(self.controller, Request(1, now() + 60, model=model)) for _ in range(count)]
        self.holders += asked
        await turns()
        return asked

    def seats(self) -> dict[str, int]:
        return {
            one.name.removeprefix("http://"): one.in_flight
            for one in self.controller.snapshot().upstreams
        }

    async def close(self) -> None:
        for holder in self.holders:
            holder.cancel()
        await asyncio.gather(*(holder.task for holder in self.holders), return_exceptions=True)
        await self.fleet.stop()
        assert all(client.closed_at is not None for client in self.clients)


# Coming and going -------------------------------------------------------------------------------


def test_the_engines_are_those_that_were_set_last() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b")
        assert list(stand.fleet.engines) == ["http://a", "http://b"]
        stand.set("b", "c")
        await stand.ask(5)
        assert stand.seats() == {"b": 2, "c": 2}
        assert stand.counts == [(2, 2), (2, 3)]
        await stand.close()

    run(scenario())


def test_to_set_the_same_again_changes_nothing() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b")
        before = dict(stand.fleet.engines)
        stand.set("b", "a")
        assert stand.fleet.engines == before
        assert len(stand.clients) == 2
        await stand.close()

    run(scenario())


def test_one_that_is_removed_is_closed_when_its_last_request_has_ended() -> None:
    async def scenario() -> None:
        stand = Stand("a")
        (holder,) = await stand.ask()
        stand.set("b")
        assert "http://a" in stand.fleet.engines, "a request is still there"
        (other,) = await stand.ask()
        assert other.permit is not None
        assert other.permit.upstream == "http://b"
        await asyncio.sleep(100)
        assert stand.clients[0].closed_at is None
        holder.finish()
        await asyncio.sleep(10)
        assert stand.clients[0].closed_at == 105.0, "what takes no seat has five seconds more"
        assert list(stand.fleet.engines) == ["http://b"]
        await stand.close()

    run(scenario())


def test_connections_may_be_open_to_all_engines_that_hold_requests_also_to_one_that_leaves() -> (
    None
):
    async def scenario() -> None:
        stand = Stand("a")
        (holder,) = await stand.ask()
        each = 2 + 1 + 128
        assert stand.fleet.most_connections() == each + 16
        stand.set("b", "c")
        assert stand.fleet.most_connections() == 3 * each + 16
        holder.finish()
        await asyncio.sleep(10)
        assert stand.fleet.most_connections() == 2 * each + 16
        await stand.close()

    run(scenario())


def test_one_that_is_leaving_is_not_ready_and_gets_nothing_new() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b")
        await stand.ask(2)
        stand.set("b")
        engine = stand.fleet.any_engine()
        assert engine is not None
        assert engine.name == "http://b"
        assert stand.fleet.engines.keys() == {"http://a", "http://b"}
        await stand.close()

    run(scenario())


def test_one_that_comes_back_before_it_was_empty_goes_on_as_it_was() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b")
        await stand.ask(4)
        stand.set("b")
        await asyncio.sleep(1)
        stand.set("a", "b")
        await stand.ask(1)
        assert stand.seats() == {"a": 2, "b": 2}
        assert len(stand.clients) == 2
        stand.holders[0].finish()
        stand.holders[1].finish()
        await asyncio.sleep(100)
        assert all(client.closed_at is None for client in stand.clients)
        await stand.close()

    run(scenario())


def test_one_that_comes_back_in_its_last_seconds_goes_on_too() -> None:
    async def scenario() -> None:
        stand = Stand("a")
        stand.set()
        await asyncio.sleep(4.9)
        stand.set("a")
        await asyncio.sleep(100)
        (holder,) = await stand.ask()
        assert holder.permit is not None
        assert len(stand.clients) == 1
        await stand.close()

    run(scenario())


def test_one_that_comes_back_while_it_is_being_closed_is_a_new_one() -> None:
    async def scenario() -> None:
        stand = Stand("a", close_s=10)
        stand.set()
        await asyncio.sleep(6)
        stand.set("a")
        (holder,) = await stand.ask()
        assert holder.permit is not None
        await asyncio.sleep(20)
        assert [client.closed_at for client in stand.clients] == [15.0, None]
        assert list(stand.fleet.engines) == ["http://a"]
        await stand.close()

    run(scenario())


def test_the_end_waits_for_what_is_being_closed() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b", "c", close_s=10)
        (holder,) = await stand.ask()
        stand.set("c")
        await asyncio.sleep(6)
        holder.finish()
        await stand.close()
        assert len(asyncio.all_tasks()) == 1

    run(scenario())


def test_all_at_once_for_others_costs_nobody_its_place() -> None:
    async def scenario() -> None:
        stand = Stand("a")
        holders = await stand.ask(4)
        stand.set("b")
        await turns()
        assert [holder.permit is not None for holder in holders] == [True] * 4
        await stand.close()

    run(scenario())


def test_without_an_engine_everybody_is_refused() -> None:
    async def scenario() -> None:
        stand = Stand()
        assert stand.fleet.any_engine() is None
        assert stand.fleet.binding_limit() is None
        (holder,) = await stand.ask()
        assert holder.reason is Reason.UPSTREAM_UNAVAILABLE
        await stand.close()

    run(scenario())


# Engines that are polled ------------------------------------------------------------------------


def test_a_new_engine_gets_nothing_before_it_has_told_what_it_serves(network: Network) -> None:
    async def scenario() -> None:
        network.serve("a", "m1")
        network.serve("b", "m2")
        stand = Stand("a", poll=True)
        stand.fleet.start()
        await asyncio.sleep(1)
        stand.set("a", "b")
        await stand.ask(3, "m1")
        await asyncio.sleep(1)
        assert stand.seats() == {"a": 2, "b": 0}
        (holder,) = await stand.ask(1, "m2")
        assert holder.permit is not None
        await stand.close()

    run(scenario())


def test_when_all_are_replaced_those_who_wait_wait_for_the_new_ones(network: Network) -> None:
    async def scenario() -> None:
        network.serve("a")
        network.serve("b")
        stand = Stand("a", poll=True)
        stand.fleet.start()
        await asyncio.sleep(1)
        holders = await stand.ask(3, "m")
        stand.set("b")
        await asyncio.sleep(1)
        assert holders[2].permit is not None
        assert holders[2].permit.upstream == "http://b"
        await stand.close()

    run(scenario())


def test_a_new_engine_that_is_down_changes_nothing_for_the_others(network: Network) -> None:
    async def scenario() -> None:
        network.serve("a")
        stand = Stand("a", poll=True)
        stand.fleet.start()
        await asyncio.sleep(1)
        stand.set("a", "gone")
        await asyncio.sleep(2)
        holders = await stand.ask(2)
        assert {holder.permit and holder.permit.upstream for holder in holders} == {"http://a"}
        await stand.close()

    run(scenario())


def test_several_engines_have_each_been_asked_before_the_first_request(network: Network) -> None:
    async def scenario() -> None:
        for number, host in enumerate("abc"):
            network.serve(host, f"m{number}")
        stand = Stand("a", "b", "c", "gone", poll=True)
        stand.fleet.start()
        await stand.fleet.until_seen()
        assert now() < 0.1
        holders = [(await stand.ask(1, f"m{number}"))[0] for number in (2, 1, 0)]
        used = [holder.permit and holder.permit.upstream for holder in holders]
        assert used == ["http://c", "http://b", "http://a"]
        await stand.close()

    run(scenario())


def test_one_that_does_not_answer_is_not_waited_for_any_longer(network: Network) -> None:
    async def scenario() -> None:
        network.serve("a")
        network.serve("b").answers["/health"] = late(1000)
        stand = Stand("a", "b", poll=True)
        stand.fleet.start()
        await stand.fleet.until_seen(within_s=2.0)
        assert now() == 2.0
        await stand.close()

    run(scenario())


@pytest.mark.parametrize(("hosts", "poll"), [(["a"], True), (["a", "b"], False)])
def test_one_alone_or_unpolled_ones_are_not_waited_for(
    network: Network, hosts: list[str], poll: bool
) -> None:
    async def scenario() -> None:
        network.serve("a").answers["/health"] = late(1000)
        stand = Stand(*hosts, poll=poll)
        stand.fleet.start()
        await stand.fleet.until_seen()
        assert now() == 0
        await stand.close()

    run(scenario())


def test_a_prompt_is_too_long_when_it_is_for_every_engine(network: Network) -> None:
    async def scenario() -> None:
        network.serve("a", max_model_len=64)
        network.serve("b", max_model_len=128)
        stand = Stand("a", "b", poll=True, max_prefill_tokens=1000)
        meter = stand.fleet.meter
        assert meter is not None

        def limit(ids: int) -> int | None:
            return meter.exceeded_length(
                Measured(
                    seats=1,
                    prompt_token_ids=ids,
                    longest_prompt_token_ids=ids,
                    max_tokens=1,
                    prompts=1,
                )
            )

        assert limit(9999) is None, "nobody has told yet"
        stand.fleet.start()
        await asyncio.sleep(2)
        assert (limit(70), limit(130)) == (None, 128)
        stand.set("a")
        assert limit(70) == 64
        await stand.close()

    run(scenario())


def test_tokens_are_metered_only_where_a_token_limit_is_set() -> None:
    async def scenario() -> None:
        assert Stand().fleet.meter is None
        assert Stand(max_prefill_tokens=1000).fleet.meter is not None
        assert Stand(max_kv_tokens="auto").fleet.meter is not None

    run(scenario())


def test_one_that_has_moved_is_the_same_engine_at_another_address(network: Network) -> None:
    async def scenario() -> None:
        former, present = network.serve("10.0.0.1"), network.serve("10.0.0.2")
        vllm = UpstreamAddress.parse("http://vllm")
        stand = Stand(poll=True)
        stand.fleet.set([vllm.at("10.0.0.1")])
        stand.fleet.start()
        await stand.ask()
        await asyncio.sleep(2)
        asked = len(former.asked)
        stand.fleet.set([vllm.at("10.0.0.2")])
        await asyncio.sleep(2)
        assert stand.seats() == {"vllm": 1}
        assert [client.moves for client in stand.clients] == [["10.0.0.2"]]
        assert stand.fleet.engines["http://vllm"].address.ip == "10.0.0.2"
        assert len(former.asked) == asked
        assert {request.headers["host"] for request in present.asked} == {"vllm"}
        await stand.close()

    run(scenario())


def test_one_that_comes_back_elsewhere_has_moved_too() -> None:
    async def scenario() -> None:
        vllm, other = UpstreamAddress.parse("http://vllm"), UpstreamAddress.parse("http://b")
        stand = Stand()
        stand.fleet.set([vllm.at("10.0.0.1")])
        await stand.ask()
        stand.fleet.set([other])
        stand.fleet.set([other, vllm.at("10.0.0.2")])
        assert stand.seats() == {"b": 0, "vllm": 1}
        assert stand.clients[0].moves == ["10.0.0.2"]
        await stand.close()

    run(scenario())


def test_one_that_is_removed_stays_until_the_last_request_without_a_seat_has_ended() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b")
        a = stand.fleet.engines["http://a"]
        with a.open_requests.one_more():
            stand.set("b")
            await asyncio.sleep(60)
            assert stand.clients[0].closed_at is None
            assert stand.counts[-1] == (1, 2), "its places are still there to be counted"
        await asyncio.sleep(10)
        assert stand.clients[0].closed_at is not None
        assert stand.counts[-1] == (1, 1)
        await stand.close()

    run(scenario())


def test_what_takes_no_seat_goes_to_one_that_is_ready(network: Network) -> None:
    async def scenario() -> None:
        network.serve("a")
        stand = Stand("gone", "a", "away", poll=True)
        stand.fleet.start()
        await asyncio.sleep(2)
        chosen = {engine.name for _ in range(20) if (engine := stand.fleet.any_engine())}
        assert chosen == {"http://a"}
        await stand.close()

    run(scenario())


def test_what_takes_no_seat_goes_to_one_with_the_fewest_of_its_kind() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b", "c")
        a, b, c = stand.fleet.serving(None)
        with a.open_requests.one_more(), a.open_requests.one_more(), b.open_requests.one_more():
            assert {stand.fleet.any_engine() for _ in range(20)} == {c}
            with c.open_requests.one_more():
                assert {stand.fleet.any_engine() for _ in range(40)} == {b, c}
        assert {stand.fleet.any_engine() for _ in range(60)} == {a, b, c}
        await stand.close()

    run(scenario())


def test_the_binding_limit_is_that_of_the_fullest() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b")
        await stand.ask(3)
        binding = stand.fleet.binding_limit()
        assert binding is not None
        assert binding.which == "max_in_flight"
        await stand.close()

    run(scenario())


def test_told_that_an_engine_has_changed_it_asks_all_at_once(network: Network) -> None:
    async def scenario() -> None:
        network.serve("a")
        stand = Stand("a", poll=True)
        stand.fleet.start()
        await asyncio.sleep(2.1)
        del network.engines["a"]
        stand.fleet.look_now()
        await asyncio.sleep(0.01)
        assert stand.fleet.view()["http://a"].up is False
        await stand.close()

    run(scenario())


def test_each_engine_has_a_lease_from_its_coming_until_it_is_empty() -> None:
    async def scenario() -> None:
        leases = LeaseKeeper(MemoryStore(now), "a", lambda _: NO_DEMAND, lambda: None, now)
        stand = Stand("a", leases=leases)
        assert leases.state().leases == {"http://a": 0}
        leases.start()
        await asyncio.sleep(4)
        assert leases.state().leases == {"http://a": 2}
        (running,) = await stand.ask()
        stand.set("b")
        assert set(leases.state().leases) == {"http://a", "http://b"}
        running.finish()
        await asyncio.sleep(60)
        assert set(leases.state().leases) == {"http://b"}
        await stand.close()
        await leases.stop()

    run(scenario())


# Settings that change while they run ------------------------------------------------------------


def test_another_limit_holds_for_all_and_for_those_that_come_later() -> None:
    async def scenario() -> None:
        stand = Stand("a", "b")
        waiting = await stand.ask(5)
        assert stand.seats() == {"a": 2, "b": 2}
        stand.fleet.adopt(Settings(max_in_flight=3, max_queue_depth=50))
        await turns()
        assert all(holder.permit for holder in waiting)
        stand.set("a", "b", "c")
        await stand.ask(9)
        assert stand.seats() == {"a": 3, "b": 3, "c": 3}
        stand.fleet.adopt(Settings(max_in_flight=1, max_queue_depth=50))
        assert stand.seats() == {"a": 3, "b": 3, "c": 3}, "nothing that runs is broken off"
        assert {one.limit for one in stand.controller.snapshot().upstreams} == {1}
        assert stand.counts == [(2, 2), (2, 2), (3, 3), (3, 3)]
        await stand.close()

    run(scenario())
