"""How a file names engines: one base URL a line, or several with commas between them.

Blank lines say nothing, nor does what follows a `#` at the start of a line or after a blank.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from proxy.upstream.address import UpstreamAddress

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT = re.compile(r"(?:^|\s)#.*")


def parse_addresses(text: str) -> tuple[UpstreamAddress, ...]:
    """The engines in the order in which they are named; none is an answer too.

    Raises ValueError with one line that says which line of the text is wrong, and why.
    """
    found: dict[UpstreamAddress, None] = {}
    for number, url in _urls(text):
        try:
            address = UpstreamAddress.parse(url)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if address in found:
            raise ValueError(f"line {number}: names {address} again, which is one engine")
        found[address] = None
    return tuple(found)


def _urls(text: str) -> Iterator[tuple[int, str]]:
    """Each with the number of its line."""
    for number, line in enumerate(text.splitlines(), start=1):
        for item in _COMMENT.sub("", line).split(","):
            if url := item.strip():
                yield number, url
