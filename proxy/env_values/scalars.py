"""Single values: files, host names, secrets, words. Each raises ValueError with its rule."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr

_HOST = re.compile(r"[A-Za-z0-9._:%-]{1,253}")
_HEADER_SAFE = re.compile(r"[!-~]+")


def host_name(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError("must be a host name or an IP address, without a scheme or brackets")
    return value


def header_safe_secret(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not _HEADER_SAFE.fullmatch(value.get_secret_value()):
        raise ValueError("must be printable ASCII without blanks, since it travels in a header")
    return value


def lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def whole_number(value: object) -> object:
    """The text "503" as 503; anything else as it is, for the type to refuse."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def readable_file(path: Path | None) -> Path | None:
    if path is not None and not (path.is_file() and os.access(path, os.R_OK)):
        raise ValueError("must be a file that can be read")
    return path


def writable_file(path: Path | None) -> Path | None:
    """A file that can be appended to, or made."""
    if path is None:
        return None
    if path.exists():
        usable = path.is_file() and os.access(path, os.W_OK)
    else:
        usable = path.parent.is_dir() and os.access(path.parent, os.W_OK)
    if not usable:
        raise ValueError("must be a file that can be written, in a directory that exists")
    return path
