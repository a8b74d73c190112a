"""Single steps of advice."""

from proxy.vllm.doctor.steps import in_flight


def test_seats_stay_below_the_engines_sequences() -> None:
    assert in_flight(256) == "230"
    assert in_flight(1) == "1"
    assert in_flight(None) is None
