"""The allow-list: what is on it, and every way round it that has been tried on others."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.edge.routes import UNKNOWN_ROUTE, Access, MethodNotAllowed, Route, RouteTable
from proxy.openai_api.measure import RequestShape

TABLE = RouteTable.build()

GATED = [
    *(b"/v1/chat/completions", b"/v1/chat/completions/batch", b"/v1/completions"),
    *(b"/v1/responses", b"/v1/messages", b"/inference/v1/generate", b"/generative_scoring"),
    *(b"/v1/systemone", b"/cohere/v2/chat", b"/v1/audio/transcriptions"),
    *(b"/v1/audio/translations", b"/v1/embeddings", b"/v2/embed", b"/pooling", b"/classify"),
    *(b"/score", b"/v1/score", b"/rerank", b"/v1/rerank", b"/v2/rerank"),
]
OPEN = [
    ("GET", b"/v1/models"),
    ("GET", b"/v1/models/tiny"),
    ("GET", b"/v1/models/org%2Fname"),
    ("GET", b"/v1/models/org/name"),
    ("GET", b"/version"),
    ("POST", b"/tokenize"),
    ("POST", b"/detokenize"),
    ("POST", b"/v1/messages/count_tokens"),
    ("POST", b"/v1/chat/completions/render"),
    ("POST", b"/v1/completions/render"),
    ("GET", b"/v1/responses/resp_1"),
    ("DELETE", b"/v1/responses/resp_1"),
    ("POST", b"/v1/responses/resp_1/cancel"),
]
# Everything that vLLM serves to whoever runs it, and must never be reached from outside.
CONTROL = [
    *(b"/sleep", b"/wake_up", b"/is_sleeping", b"/pause", b"/resume", b"/collective_rpc"),
    *(b"/reset_prefix_cache", b"/reset_mm_cache", b"/scale_elastic_ep", b"/server_info"),
    *(b"/start_profile", b"/stop_profile", b"/update_weights", b"/abort_requests"),
    *(b"/v1/load_lora_adapter", b"/v1/unload_lora_adapter", b"/invocations", b"/tokenizer_info"),
    *(b"/metrics", b"/load", b"/health", b"/ping", b"/docs", b"/redoc", b"/openapi.json"),
    *(b"/docs/oauth2-redirect", b"/kv_event_sources", b"/v1/realtime", b"/", b"", b"*"),
]
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "BREW"]


def respellings(path: bytes) -> list[bytes]:
    """Other ways to write a path, which some server takes for the same one."""
    first, rest = path[:2], path[2:]
    encoded = first[:1] + quote(first[1:], safe="").encode()
    return [
        path.upper(),
        path + b"/",
        path + b"//",
        b"/" + path,
        path.replace(b"/", b"//"),
        path.replace(b"/", b"\\"),
        b"/%" + b"%02x" % path[1] + rest,
        path.replace(b"/", b"%2f"),
        encoded + rest + b"%00",
        path + b";x",
        path + b";x=1",
        path + b"%20",
        path + b".",
        path + b"/.",
        path + b"%0d%0aX:%20y",
        b"/." + path,
        b"/v1/.." + path,
        b"/v1/%2e%2e" + path,
        b"/v1/..%2f" + path[1:],
        b"/v1/%252e%252e" + path,
        b"/v1/models/.." + path,
        b"/v1/models/../.." + path,
        b"/v1/models/%2e%2e" + path,
        b"/v1/models/..%2f.." + path,
        b"/v1/models/%2e%2e%2f%2e%2e" + path,
        b"/v1/models/%252e%252e%252f.." + path,
        b"/v1/models/..;/.." + path,
        b"/v1/models/x/..;a=b/..;/.." + path,
        b"/v1/models/..\\..\\" + path[1:],
        b"/v1/models/..%5c..%5c" + path[1:],
        b"/v1/models/x%00/../.." + path,
        b"/v1/responses/../.." + path,
        b"/v1/responses/%2e%2e/%2e%2e" + path,
        b"/v1/responses/.." + path + b"/cancel",
    ]


@pytest.mark.parametrize("path", GATED)
def test_generation_and_pooling_routes_take_seats(path: bytes) -> None:
    route = TABLE.match("POST", path)
    assert isinstance(route, Route)
    assert route.access is Access.GATED


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_open_routes_take_none(method: str, path: bytes) -> None:
    route = TABLE.match(method, path)
    assert isinstance(route, Route)
    assert route.access is Access.OPEN


@pytest.mark.parametrize("path", GATED)
def test_a_gated_route_takes_post_only(path: bytes) -> None:
    for method in METHODS:
        if method != "POST":
            assert TABLE.match(method, path) == MethodNotAllowed(("POST",))


def test_a_method_is_compared_as_it_is_written() -> None:
    assert isinstance(TABLE.match("post", b"/v1/completions"), MethodNotAllowed)


@pytest.mark.parametrize("path", CONTROL)
@pytest.mark.parametrize("method", METHODS)
def test_control_routes_are_not_served(method: str, path: bytes) -> None:
    assert TABLE.match(method, path) is None


@pytest.mark.parametrize("path", [path for path in CONTROL if len(path) > 1])
def test_no_respelling_of_a_control_route_is_served(path: bytes) -> None:
    for spelling in respellings(path):
        for method in METHODS:
            assert TABLE.match(method, spelling) is None, spelling


@pytest.mark.parametrize("path", GATED)
def test_no_respelling_of_a_gated_route_passes_ungated(path: bytes) -> None:
    for spelling in respellings(path):
        for method in METHODS:
            assert not isinstance(TABLE.match(method, spelling), Route), spelling


@pytest.mark.parametrize(
    "path",
    [
        b"//evil.test/x",
        b"/\\evil.test",
        b"/@evil.test/",
        b"http://evil.test/",
        b"evil.test:443",
        b"/v1/models#@evil",
        b"/v1/models/x#y",
        b"/v1/models/x%23y",
        b"/v1/models/x?y",
        b"/v1/models/%3f",
        b"/v1/responses/%3f/cancel",
        b"/v1/models/%0d%0aX:%20y",
        b"/v1/models/%00",
        b"/v1/models/\x00",
        b"/v1/models/ ",
        b"/v1/models/%20",
        b"/v1/models/caf\xc3\xa9",
        b"/v1/models/%c3%a9",
        b"/v1/models/%7f",
        b"/v1/models/%25",
        b"/v1/models/100%",
        b"/v1/models/%zz",
        b"/v1/models/",
        b"/v1/models//",
        b"/v1/models/a//b",
        b"/v1/models/a/",
        b"/v1/models/a%2F",
        b"/v1/models/a%2F%2Fb",
        b"/v1/models/.",
        b"/v1/models/..",
        b"/v1/models/a/./b",
        b"/v1/models/a/../b",
        b"/v1/models/" + b"a" * 65_536,
        b"/v1/responses/",
        b"/v1/responses//cancel",
        b"/v1/responses/a/b",
        b"/v1/responses/a%2Fb",
        b"/v1/responses/a%2fcancel",
        b"/v1/responses/a/cancel/",
        b"/v1/responses/a/b/cancel",
        b"/v1/responses/a%2Fb/cancel",
        b"/v1/responses/../cancel",
        b"/V1/models/tiny",
    ],
)
def test_tricks_with_paths_lead_nowhere(path: bytes) -> None:
    assert TABLE.match("GET", path) is None
    assert TABLE.match("POST", path) is None


def test_an_id_may_be_as_long_as_ids_get() -> None:
    assert isinstance(TABLE.match("GET", b"/v1/models/" + b"a" * 1024), Route)
    assert TABLE.match("GET", b"/v1/models/" + b"a" * 1025) is None


def _normalized(path: bytes) -> bytes:
    """RFC 3986, 5.2.4, after what lenient servers do first: backslashes, parameters, doubles."""
    kept: list[bytes] = []
    for raw in path.replace(b"\\", b"/").split(b"/"):
        segment = raw.partition(b";")[0]
        if segment == b"..":
            kept = kept[:-1]
        elif segment not in (b"", b"."):
            kept.append(segment)
    return b"/" + b"/".join(kept)


def _readings(path: bytes) -> list[bytes]:
    """What an engine may take a path for: decoded any number of times, then normalized."""
    readings = []
    while True:
        cuts = (path, path.partition(b"?")[0], path.partition(b"#")[0])
        readings.extend(map(_normalized, cuts))
        decoded = unquote_to_bytes(path)
        if decoded == path:
            return readings
        path = decoded


_PIECES = st.sampled_from(
    [
        *(b".", b"..", b"/", b"//", b"%2e", b"%2E%2e", b"%2f", b"%2F", b"%5c", b"\\", b";", b"..;"),
        *(b"%252e", b"%25", b"%3f", b"?", b"#", b"%23", b"%00", b"%0d%0a", b"a", b"org", b"cancel"),
        *(b"sleep", b"v1", b"responses", b"%", b"%3b", b"%3B..", b"..%3b"),
    ]
)
_IDS = st.lists(_PIECES | st.binary(max_size=3), max_size=8).map(b"".join)


@given(_IDS)
@example(b"..;/..;/sleep")
@example(b"..%3b/..%3b/sleep")
@example(b"%2e%2e/%2e%2e/sleep")
def test_no_accepted_model_id_ever_leaves_its_place(id_: bytes) -> None:
    path = b"/v1/models/" + id_
    if isinstance(TABLE.match("GET", path), Route):
        assert all(reading.startswith(b"/v1/models/") for reading in _readings(path)), path


@given(_IDS, st.sampled_from([b"", b"/cancel"]))
@example(b"%3f", b"/cancel")
@example(b"..;", b"/cancel")
def test_no_accepted_response_id_ever_leaves_its_place(id_: bytes, suffix: bytes) -> None:
    path = b"/v1/responses/" + id_ + suffix
    for method in ("GET", "DELETE", "POST"):
        route = TABLE.match(method, path)
        if isinstance(route, Route) and path != b"/v1/responses/render":
            readings = _readings(path)
            assert all(reading.startswith(b"/v1/responses/") for reading in readings), path
            segments = 4 if route.name == "response_cancel" else 3
            assert all(reading.count(b"/") == segments for reading in readings), path


@given(st.binary(max_size=40), st.sampled_from(METHODS))
def test_any_bytes_are_judged_without_an_error(path: bytes, method: str) -> None:
    TABLE.match(method, b"/" + path)


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40))
def test_an_ordinary_id_is_served_plain_and_encoded(id_: str) -> None:
    everything_encoded = "".join(f"%{byte:02x}" for byte in id_.encode()).encode()
    for spelling in (id_.encode(), everything_encoded):
        assert isinstance(TABLE.match("GET", b"/v1/models/" + spelling), Route)
        assert isinstance(TABLE.match("DELETE", b"/v1/responses/x" + spelling), Route)


@pytest.mark.parametrize(
    "id_", [b"meta-llama/Llama-3.1-8B", b"a:b@c,d+e~f_g", b"..a", b"a..", b"..."]
)
def test_model_names_keep_their_usual_characters(id_: bytes) -> None:
    assert isinstance(TABLE.match("GET", b"/v1/models/" + id_), Route)


def test_a_path_with_an_id_says_which_methods_it_takes() -> None:
    assert TABLE.match("PUT", b"/v1/models/tiny") == MethodNotAllowed(("GET",))
    assert TABLE.match("POST", b"/v1/responses/r") == MethodNotAllowed(("GET", "DELETE"))
    assert TABLE.match("GET", b"/v1/responses/r/cancel") == MethodNotAllowed(("POST",))


def test_an_exposed_path_is_open_for_its_method_only() -> None:
    table = RouteTable.build([("GET", "/metrics"), ("POST", "/metrics"), ("GET", "/load")])
    assert table.match("GET", b"/metrics") == Route("exposed", Access.OPEN)
    assert table.match("PUT", b"/metrics") == MethodNotAllowed(("GET", "POST"))
    assert table.match("POST", b"/load") == MethodNotAllowed(("GET",))
    assert table.match("GET", b"/load/") is None


def test_exposing_invocations_is_no_way_round_the_gate() -> None:
    route = RouteTable.build([("POST", "/invocations")]).match("POST", b"/invocations")
    assert route == Route("invocations", Access.GATED, RequestShape.INVOCATIONS)


@pytest.mark.parametrize("path", GATED)
def test_exposing_a_gated_route_leaves_it_gated(path: bytes) -> None:
    route = RouteTable.build([("POST", path.decode())]).match("POST", path)
    assert isinstance(route, Route)
    assert route.access is Access.GATED


def test_a_preflight_is_an_options_request_and_nothing_else() -> None:
    route = TABLE.preflight("OPTIONS")
    assert route is not None
    assert route.access is Access.OPEN
    assert [TABLE.preflight(method) for method in METHODS if method != "OPTIONS"] == [None] * 9


def test_every_route_that_can_match_has_its_name_in_the_closed_set() -> None:
    table = RouteTable.build([("GET", "/load"), ("POST", "/invocations")])
    paths = [*(("POST", path) for path in GATED), *OPEN, ("GET", b"/load")]
    matched = {route.name for one in paths if isinstance(route := table.match(*one), Route)}
    preflight = table.preflight("OPTIONS")
    assert preflight is not None
    assert matched | {preflight.name, UNKNOWN_ROUTE.name} <= set(table.names())
    assert len(table.names()) == len(set(table.names()))
