from __future__ import annotations

import pytest

from proxy.simulator.errors import ApiError
from proxy.simulator.exchange import Exchange
from proxy.simulator.faults import Die
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.service import Service
from proxy.simulator.simulated_engine import SimulatedEngine
from tests.support.virtual_time import run


def service(**options: object) -> Service:
    chosen = SimulatorOptions(served_model_name="tiny", **options)
    return Service(chosen, SimulatedEngine(chosen), wall_clock=lambda: 1796099173.9)


def exchange(*headers: tuple[bytes, bytes]) -> Exchange:
    async def unused(*_: object) -> dict[str, object]:
        raise AssertionError("not used here")

    return Exchange({"method": "POST", "path": "/", "headers": headers}, unused, unused)


def test_ids_differ_and_are_the_same_for_the_same_seed() -> None:
    ids = [service(seed=1).new_id("cmpl-"), service(seed=1).new_id("cmpl-")]
    assert ids[0] == ids[1]
    assert len(ids[0]) == len("cmpl-") + 16
    one = service()
    assert one.new_id("cmpl-") != one.new_id("cmpl-")


def test_a_clients_own_id_is_used() -> None:
    sent = exchange((b"x-request-id", b"abc-1"))
    assert service().request_id("chatcmpl-", sent) == "chatcmpl-abc-1"
    assert service().request_id("chatcmpl-", exchange()) != "chatcmpl-"


def test_created_is_in_whole_seconds() -> None:
    assert service().created() == 1796099173


@pytest.mark.parametrize("asked", [None, "", "tiny"])
def test_the_served_model_may_be_named_or_not(asked: str | None) -> None:
    service().check_model(asked)


def test_another_model_is_not_found() -> None:
    with pytest.raises(ApiError) as error:
        service().check_model("huge")
    assert (error.value.status, error.value.param) == (404, "model")
    assert error.value.message == "The model `huge` does not exist. Valid aliases: tiny."


def status_of_refusal(refusing: Service) -> int:
    with pytest.raises(ApiError) as error:
        refusing.check_admission(1)
    return error.value.status


def test_a_full_queue_is_503_and_a_dead_engine_500() -> None:
    async def scenario() -> None:
        refusing = service(max_num_queued_reqs=0)
        async with refusing.engine:
            assert status_of_refusal(refusing) == 503
            refusing.engine.inject(Die())
            assert status_of_refusal(refusing) == 500

    run(scenario())


def test_an_engine_that_was_never_started_is_as_good_as_dead() -> None:
    assert status_of_refusal(service()) == 500
