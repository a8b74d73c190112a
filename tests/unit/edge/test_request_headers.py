from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.admission.request import Priority
from proxy.edge.request_headers import (
    BadHeaderError,
    HeaderReader,
    RequestHeaders,
    new_request_id,
)


def read(**fields: bytes) -> RequestHeaders:
    """Headers by name, with underscores for hyphens."""
    return HeaderReader().read([(name.replace("_", "-").encode(), v) for name, v in fields.items()])


def test_a_request_without_headers_has_an_id_and_nothing_else() -> None:
    found = HeaderReader().read([])
    assert len(found.request_id) == 32
    assert found == RequestHeaders(found.request_id)


def test_ids_of_ours_differ() -> None:
    assert len({new_request_id() for _ in range(1000)}) == 1000


@pytest.mark.parametrize("id_", [b"a", b"req 1", b"~!@#$%^&*()", b"x" * 128])
def test_a_sane_request_id_is_kept(id_: bytes) -> None:
    assert read(x_request_id=id_).request_id == id_


@pytest.mark.parametrize(
    "id_", [b"", b"x" * 129, b"a\tb", b"a\r\nx-evil: 1", b"a\x00", b"caf\xc3\xa9", b"\x7f"]
)
def test_any_other_request_id_is_replaced(id_: bytes) -> None:
    assert read(x_request_id=id_).request_id.isalnum()


def test_of_two_request_ids_the_first_sane_one_counts() -> None:
    ids = [(b"x-request-id", value) for value in (b"\x01", b"first", b"second")]
    assert HeaderReader().read(ids).request_id == b"first"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"0", 0.0), (b"0.25", 0.25), (b"1e3", 1000.0), (b"-0", 0.0), (b"99999999999", 1e11 - 1)],
)
def test_a_queue_timeout_is_a_number_of_seconds(value: bytes, seconds: float) -> None:
    assert read(x_sluice_queue_timeout=value).queue_timeout_s == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"-1", b"-0.001", b"nan", b"inf", b"-inf", b"1e999", b"5s", b"1,5", b"\xff", b"0x5"),
        *(b"1_0", b"+5", b" nan", b"infinity", "١٠".encode(), b"\xb2", b"1\x0b", b"1_0.5"),
    ],
)
def test_a_queue_timeout_that_is_none_is_refused_by_name(value: bytes) -> None:
    with pytest.raises(BadHeaderError, match="x-sluice-queue-timeout must be"):
        read(x_sluice_queue_timeout=value)


def test_a_bad_header_does_not_take_the_request_id_with_it() -> None:
    with pytest.raises(BadHeaderError) as caught:
        read(x_sluice_queue_timeout=b"soon", x_request_id=b"mine", expect=b"100-continue")
    assert caught.value.headers.request_id == b"mine"
    assert caught.value.headers.expects_continue


def test_a_later_good_value_does_not_heal_a_bad_one() -> None:
    fields = [(b"x-sluice-queue-timeout", b"soon"), (b"x-sluice-queue-timeout", b"1")]
    with pytest.raises(BadHeaderError):
        HeaderReader().read(fields)


@pytest.mark.parametrize("name", ["x_stainless_read_timeout", "x_stainless_timeout"])
def test_the_sdks_timeouts_are_read(name: str) -> None:
    assert read(**{name: b"2.5"}).client_timeout_s == 2.5


def test_of_the_sdks_timeouts_the_shortest_counts() -> None:
    both = read(x_stainless_read_timeout=b"600", x_stainless_timeout=b"3")
    assert both.client_timeout_s == 3
    assert read(x_stainless_read_timeout=b"3", x_stainless_timeout=b"600").client_timeout_s == 3


@pytest.mark.parametrize(
    "value", [b"", b"NOT_GIVEN", b"None", b"nan", b"inf", b"0", b"-1", b"1_0", b"+5"]
)
def test_an_sdk_timeout_that_says_nothing_counts_as_absent(value: bytes) -> None:
    assert read(x_stainless_read_timeout=value).client_timeout_s is None
    both = read(x_stainless_timeout=b"7", x_stainless_read_timeout=value)
    assert both.client_timeout_s == 7


@pytest.mark.parametrize(("value", "attempt"), [(b"0", 0), (b"1", 1), (b"9999", 9999)])
def test_the_attempt_is_the_sdks_retry_count(value: bytes, attempt: int) -> None:
    assert read(x_stainless_retry_count=value).attempt == attempt


@pytest.mark.parametrize("value", [b"", b"-1", b"1.0", b"two", b"10000", b"9" * 5000, b"\xb2"])
def test_a_retry_count_that_is_none_is_a_first_attempt(value: bytes) -> None:
    assert read(x_stainless_retry_count=value).attempt == 0


@pytest.mark.parametrize("value", [b"100-continue", b"100-Continue"])
def test_a_client_may_ask_first(value: bytes) -> None:
    assert read(expect=value).expects_continue


def test_another_expectation_is_none() -> None:
    assert not read(expect=b"200-ok").expects_continue


@pytest.mark.parametrize("first", [b"application/json", b"", b"text/plain"])
def test_a_body_has_one_type_or_the_engine_might_read_another(first: bytes) -> None:
    fields = [(b"content-type", first), (b"content-type", b"text/plain")]
    with pytest.raises(BadHeaderError, match="Content-Type must not be there twice"):
        HeaderReader().read(fields)


def test_what_else_matters_is_read() -> None:
    found = read(
        content_type=b"application/json; charset=utf-8",
        content_length=b"123",
        access_control_request_method=b"",
    )
    assert found.content_type == b"application/json; charset=utf-8"
    assert found.content_length == 123
    assert found.asks_preflight


def test_a_length_is_read_whatever_number_of_zeros_is_before_it() -> None:
    assert read(content_length=b"0" * 5000 + b"5").content_length == 5


_NAMES = st.sampled_from(
    [
        *(b"x-request-id", b"content-type", b"content-length", b"x-sluice-queue-timeout"),
        *(b"x-stainless-read-timeout", b"x-stainless-timeout", b"x-stainless-retry-count"),
        *(b"expect", b"access-control-request-method", b"authorization", b"x-anything"),
    ]
)
_VALUES = (
    st.binary(max_size=200)
    | st.floats().map(lambda number: str(number).encode())
    | st.integers().map(lambda number: str(number).encode())
    | st.text(max_size=8).map(str.encode)
)


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=12))
@example([(b"x-stainless-read-timeout", b"1_0")])
@example([(b"x-sluice-queue-timeout", b"5 \t")])
@example([(b"x-sluice-queue-timeout", " ٣ ".encode())])
def test_whatever_comes_gives_usable_values_or_one_kind_of_error(
    fields: list[tuple[bytes, bytes]],
) -> None:
    try:
        found = HeaderReader().read(fields)
    except BadHeaderError as error:
        found = error.headers
    else:
        assert found.queue_timeout_s is None or 0 <= found.queue_timeout_s < float("inf")
    assert 1 <= len(found.request_id) <= 128
    assert found.request_id.decode("ascii").isprintable()
    assert found.client_timeout_s is None or 0 < found.client_timeout_s < float("inf")
    assert 0 <= found.attempt <= 9999
    assert found.content_length is None or found.content_length >= 0


@pytest.mark.parametrize("word", ["high", "normal", "low", "High", " low "])
def test_a_priority_is_one_of_three_words(word: str) -> None:
    assert read(x_sluice_priority=word.encode()).priority.name.lower() == word.strip().lower()


def test_without_a_word_a_request_is_of_normal_priority() -> None:
    assert read().priority is Priority.NORMAL


@pytest.mark.parametrize("word", [b"", b"urgent", b"0", b"high, low"])
def test_another_priority_is_refused(word: bytes) -> None:
    with pytest.raises(BadHeaderError, match="x-sluice-priority must be high, normal or low"):
        read(x_sluice_priority=word)


def test_the_names_of_priority_and_tenant_can_be_chosen() -> None:
    reader = HeaderReader(priority_header="x-class", tenant_header="x-team")
    found = reader.read(
        [(b"x-class", b"high"), (b"x-team", b" red "), (b"x-sluice-priority", b"?")]
    )
    assert (found.priority, found.tenant) == (Priority.HIGH, "red")


def test_unless_a_header_is_named_for_it_nobody_says_which_tenant_he_is() -> None:
    assert read(x_team=b"red").tenant == ""


def test_a_session_is_read_from_the_header_that_is_named_for_it() -> None:
    reader = HeaderReader(session_header="x-session-id")
    assert reader.read([(b"x-session-id", b"a \xff")]).session == b"a \xff"
    assert read(x_session_id=b"a").session == b""


def test_a_tenants_name_is_bounded() -> None:
    reader = HeaderReader(tenant_header="x-team")
    assert len(reader.read([(b"x-team", b"x" * 10_000)]).tenant) == 128
