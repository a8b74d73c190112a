"""Paths: what passes is on the list, byte for byte, and stays where it was judged however often the
engine decodes or normalizes it."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.edge.routes import Access, MethodNotAllowed, Route, RouteTable
from proxy.env_values.exposed_paths import parse_exposed_paths
from proxy.upstream.address import UpstreamAddress
from tests.fuzz.fuzzing import assert_is_one_line, examples, mostly

TABLE = RouteTable.build()
METHODS = ["GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "get", "CONNECT"]
_WORDS = [
    b"/", b"/v1", b"/v1/models/", b"/v1/responses/", b"/cancel", b"/v1/chat/completions", b"..",
    b".", b"%2e", b"%2E%2e", b"%2f", b"%5c", b"\\", b"%252e", b"%00", b";", b"%3b", b"?", b"#",
    b"//", b"sleep", b"/sleep", b"\xff", b"%ff", b"%", b"%c0%ae", b" ", b"+", b"@", b":", b"org",
    b"name", b"A", b"http://evil", b"%2", b"\t", b"~", b"&", b"=", b"*", b"%e2%80%a5", b"resp_1",
]  # fmt: skip
paths = st.one_of(mostly(st.sampled_from(_WORDS), 8), st.sampled_from(TABLE.paths()))
_WITH_ID = (b"/v1/models/", b"/v1/responses/")


def readings(path: bytes) -> set[str]:
    """What a server may make of a path: decoded never, once or more often, dots taken out."""
    found = set()
    text = path.decode("latin-1")
    for _ in range(4):
        found |= {text, posixpath.normpath(text), posixpath.normpath(text.replace("\\", "/"))}
        text = unquote(text, "latin-1")
    return found


@example("GET", b"/v1/models/..%2f..%2fsleep")
@example("GET", b"/v1/models/a/../../sleep")
@given(st.sampled_from(METHODS), paths)
@examples(400)
def test_what_passes_is_on_the_list_and_stays_there(method: str, path: bytes) -> None:
    route = TABLE.match(method, path)
    if route is None:
        return
    if isinstance(route, MethodNotAllowed):
        assert method not in route.allowed
    if path in TABLE.paths():
        return
    prefix = next(p for p in _WITH_ID if path.startswith(p))
    for reading in readings(path):
        assert reading.startswith(prefix.decode())
        assert len(reading) > len(prefix)
        assert not {"", ".", ".."} & set(reading[1:].split("/"))
        assert not set(reading) & set("?#;\\\0 ")
    if isinstance(route, Route):
        assert route.access is Access.OPEN


@given(st.sampled_from([*TABLE.paths(), b"/v1/models/org%2Fname", b"/v1/responses/a@b:c/cancel"]))
@examples(20)
def test_the_target_for_the_engine_is_the_path_that_was_judged(path: bytes) -> None:
    address = UpstreamAddress.parse("http://engine:8000/prefix/v1")
    target = address.target(path, b"a=%2e%2e/b")
    assert target == b"/prefix" + path + b"?a=%2e%2e/b"
    assert urlsplit(target.decode("ascii")).path == "/prefix" + path.decode("ascii")


@given(st.lists(st.tuples(st.sampled_from([*METHODS, "post"]), paths), max_size=3))
@examples(100)
def test_what_is_exposed_is_open_and_nothing_else_opens_with_it(
    pairs: list[tuple[str, bytes]],
) -> None:
    written = ",".join(f"{method} {path.decode('latin-1')}" for method, path in pairs)
    try:
        exposed = parse_exposed_paths(written)
    except ValueError as error:
        assert_is_one_line(error)
        return
    table = RouteTable.build(exposed)
    assert set(table.paths()) == set(TABLE.paths()) | {path.encode() for _, path in exposed}
    for path in TABLE.paths():
        for method in METHODS:
            before, after = TABLE.match(method, path), table.match(method, path)
            if isinstance(before, Route):
                assert after == before
    for _, path in exposed:
        assert unquote_to_bytes(path)[:1] == b"/"
