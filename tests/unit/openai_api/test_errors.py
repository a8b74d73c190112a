"""Error bodies that OpenAI clients understand."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.outcome import Reason
from proxy.openai_api.errors import ErrorCode, ErrorType, error_body
from proxy.upstream.errors import UpstreamError


def test_the_body_has_all_four_fields_even_when_param_is_null() -> None:
    body = error_body("no room", ErrorType.SERVICE_UNAVAILABLE, "queue_full")
    assert json.loads(body) == {
        "error": {
            "message": "no room",
            "type": "service_unavailable_error",
            "param": None,
            "code": "queue_full",
        }
    }


def test_a_parameter_can_be_named() -> None:
    body = error_body("too wide", ErrorType.INVALID_REQUEST, "too_many_sequences", "n")
    assert json.loads(body)["error"]["param"] == "n"


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_message_gives_one_line_of_utf_8(message: str) -> None:
    body = error_body(message, "t", "c")
    assert b"\n" not in body
    assert b"\r" not in body
    read = json.loads(body.decode("utf-8"))["error"]["message"]
    assert read == message.encode("utf-8", "replace").decode("utf-8")


def test_codes_for_engine_failures_are_those_of_the_upstream_errors() -> None:
    codes = {kind.code for kind in UpstreamError.__subclasses__()}
    assert codes <= {code.value for code in ErrorCode}


def test_no_code_means_two_things() -> None:
    assert not {code.value for code in ErrorCode} & {reason.value for reason in Reason}
