from __future__ import annotations

import pytest

from proxy.edge.request_target import take_apart
from proxy.edge.unreadable import UnreadableHeadError


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (b"/v1/models", (b"/v1/models", "/v1/models", b"")),
        (b"/v1/a%2Fb?c=%20?d", (b"/v1/a%2Fb", "/v1/a/b", b"c=%20?d")),
        (b"//evil.test/x", (b"//evil.test/x", "//evil.test/x", b"")),
        (b"http://evil.test/v1/models?x#y", (b"/v1/models", "/v1/models", b"x")),
        (b"http://u:p@evil.test", (b"", "", b"")),
        (b"*", (b"*", "*", b"")),
    ],
)
def test_a_target_is_taken_apart_as_it_was_sent(
    url: bytes, target: tuple[bytes, str, bytes]
) -> None:
    assert take_apart(url) == target


@pytest.mark.parametrize("url", [b"", b"v1/models", b"http://", b"evil.test:80"])
def test_what_is_no_path_is_unreadable(url: bytes) -> None:
    with pytest.raises(UnreadableHeadError, match="not a path"):
        take_apart(url)
