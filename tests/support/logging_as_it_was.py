"""Logging is the process's, so a test that sets it up gives it back as it found it."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TOUCHED = (
    "",
    "asyncio",
    "hpack",
    "httpcore",
    "httpx",
    "uvicorn.error",
    "uvicorn.access",
    "sluice.admin",
)


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    before = [(one, one.level, one.disabled) for one in map(logging.getLogger, TOUCHED)]
    handlers = logging.getLogger().handlers.copy()
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        logging.getLogger().handlers[:] = handlers
        for logger, level, disabled in before:
            logger.setLevel(level)
            logger.disabled = disabled
