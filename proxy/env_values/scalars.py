"""Single values: files, host names, secrets, words. Each raises ValueError with its rule."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from typing import TYPE_CHECKING

from proxy.env_values.key_digest import SHORTEST_SOUND_KEY, KeyDigest

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr

_NAME = re.compile(r"(?=.{1,253}$)(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
_ENDS_IN_A_NUMBER = re.compile(r"(?:.*\.)?[0-9]+\.?")
_HEADER_SAFE = re.compile(r"[!-~]+")
_HEADER_SAFE_RULE = "must be printable ASCII without blanks, since it travels in a header"


def host_name(value: str) -> str:
    """What ends in a number is no name (RFC 1123): the system would look for `999.1.1.1` in the
    DNS, and take `1.2.3` for 1.2.0.3."""
    is_address = ":" in value or _ENDS_IN_A_NUMBER.fullmatch(value)
    if not (_is_address(value) if is_address else _NAME.fullmatch(value)):
        raise ValueError("must be a host name or an IP address, without a scheme or brackets")
    return value


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return value.isprintable() and " " not in value  # a zone may be anything


def header_safe_secret(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not _HEADER_SAFE.fullmatch(value.get_secret_value()):
        raise ValueError(_HEADER_SAFE_RULE)
    return value


def token_digest(value: object) -> object:
    """A token that opens something, of which only the hash is kept; what is no text is left for
    the type to judge."""
    if not isinstance(value, str):
        return value
    if not _HEADER_SAFE.fullmatch(value):
        raise ValueError(_HEADER_SAFE_RULE)
    if len(value) < SHORTEST_SOUND_KEY:
        raise ValueError(
            f"must have at least {SHORTEST_SOUND_KEY} characters, or it can be guessed; "
            "'openssl rand -hex 32' makes one"
        )
    return KeyDigest.of(value)


def lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def whole_number(value: object) -> object:
    """The text "503" as 503; anything else as it is, for the type to refuse."""
    is_one = isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,19}\s*", value)
    return int(str(value)) if is_one else value


def readable_file(path: Path | None) -> Path | None:
    # Looked at in this order: of a path that cannot be, asking for its kind fails.
    if path is not None and not (os.access(path, os.R_OK) and path.is_file()):
        raise ValueError("must be a file that can be read")
    return path


def writable_file(path: Path | None) -> Path | None:
    """A file that can be appended to, or made."""
    if path is None:
        return None
    try:
        usable = stat.S_ISREG(path.stat().st_mode) and os.access(path, os.W_OK)
    except FileNotFoundError:
        usable = path.parent.is_dir() and os.access(path.parent, os.W_OK)
    except (OSError, ValueError):  # in a directory that may not be entered, or no possible name
        usable = False
    if not usable:
        raise ValueError("must be a file that can be written, in a directory that exists")
    return path
