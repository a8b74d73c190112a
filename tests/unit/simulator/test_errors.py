from __future__ import annotations

from proxy.simulator.errors import (
    ApiError,
    bad_request,
    engine_dead,
    model_not_found,
    no_such_response,
    queue_full,
    unreadable,
)


def test_a_body_has_vllms_four_fields_and_a_number_for_a_code() -> None:
    assert ApiError(418, "Short and stout.", "Teapot", "lid").body() == {
        "error": {"message": "Short and stout.", "type": "Teapot", "param": "lid", "code": 418}
    }


def test_anthropics_form_has_other_fields() -> None:
    assert queue_full().anthropic_body() == {
        "type": "error",
        "error": {"type": "Service Unavailable", "message": queue_full().message},
    }


def test_a_bad_value_is_named_in_the_message() -> None:
    error = bad_request("Too many.", "n", 5)
    assert (error.status, error.message) == (400, "Too many. (parameter=n, value=5)")
    assert (error.type_, error.param) == ("BadRequestError", "n")
    assert bad_request("Too many.").message == "Too many."


def test_every_refusal_has_vllms_status_and_type() -> None:
    refusals = [
        unreadable("What?", None),
        model_not_found("a", "b"),
        queue_full(),
        engine_dead(),
        no_such_response("resp_1"),
    ]
    assert [(refusal.status, refusal.type_) for refusal in refusals] == [
        (400, "Bad Request"),
        (404, "NotFoundError"),
        (503, "Service Unavailable"),
        (500, "InternalServerError"),
        (404, "invalid_request_error"),
    ]
