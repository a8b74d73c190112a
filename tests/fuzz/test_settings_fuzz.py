"""Settings: any text in any variable is either a valid setting or lines that say what is wrong, one
for each fault, naming the variable; never a traceback, never a secret."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.config import (
    SECRETS,
    SettingsError,
    given_fields,
    load_settings,
    settings_table,
    variable_name,
)
from proxy.settings import ENV_FILE, Settings
from tests.fuzz.fuzzing import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIABLES = [variable_name(field) for field in Settings.model_fields]
SECRET_VARIABLES = {variable_name(field) for field in SECRETS}
CANARY = "hunter2hunter2"
# Whatever stands in them may be a secret, or may have one in it as a URL has.
MAY_HOLD_SECRETS = SECRET_VARIABLES | {"SLUICE_UPSTREAM_URLS", "SLUICE_OTLP_ENDPOINT"}
_WORDS = [
    "0", "1", "-1", "+1", "1_0", "007", "1.5", "1e3", "1e999", "nan", "inf", "-inf", "0x10", "٣",
    "9" * 30, "9" * 5000, "true", "FALSE", "yes", "2", "auto", "AUTO", "503", "429", "",
    "http://", "https://", "http://[::1]:8000", "http://[", "a", "engine:8000", "/v1", "/", "..",
    "?", "#", "@", "user:", f"u:{CANARY}@", f"?key={CANARY}", ",", ";", ":", " ", "\t",
    "\n", "\r", "\x7f", "\x1b[2J", "\u2028", "é", "\udcff", "\U0001f600", "GET /x", "GET", "name:3",
    "a:1,a:2", "none", "prefix", "debug", "json", "pool", "httpx", "redis://", "rediss://h/0",
    "redis+sentinel://a:1,b/s", "unix:///x", "=", "%", "${HOME}", "$X", "'", '"', "\\", "x" * 300,
    "tcp://10.0.0.1:80", "0.0.0.0", "::", "localhost", "x-sluice-priority", "authorization", ".",
]  # fmt: skip
values = st.one_of(
    st.lists(st.sampled_from(_WORDS), max_size=5).map("".join),
    st.text(max_size=8).filter(lambda text: "\0" not in text),
)
_names = st.one_of(
    st.sampled_from(VARIABLES),
    st.sampled_from(["SLUICE_PORTS", "SLUICE_", "sluice_port", "WEB_CONCURRENCY", "SLUICE_\nX"]),
    st.text(max_size=4).filter(lambda t: t and not set(t) & set("\0=")).map("SLUICE_{}".format),
)
environments = st.dictionaries(_names, values, max_size=4)
_LINE = re.compile(r"['\"]?(SLUICE_|WEB_CONCURRENCY|\.env)")


@contextlib.contextmanager
def surroundings(environment: Mapping[str, str], dotenv: bytes | None = None) -> Iterator[None]:
    """Nothing but these variables, in a directory of its own."""
    encodable = {
        name: value
        for name, value in environment.items()
        if _can_be_set(name) and _can_be_set(value)
    }
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.chdir(directory),
        mock.patch.dict(os.environ, encodable, clear=True),
    ):
        if dotenv is not None:
            Path(ENV_FILE).write_bytes(dotenv)
        yield


def _can_be_set(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:  # a half of a surrogate pair that stands for no byte
        return False
    return True


def problems_of(environment: Mapping[str, str], dotenv: bytes | None = None) -> tuple[str, ...]:
    """None: they are sound, and can be shown."""
    with surroundings(environment, dotenv):
        try:
            settings = load_settings()
        except SettingsError as error:
            return error.problems
        given_fields()
        shown = "".join(f"{row}" for row in settings_table(settings)) + repr(settings)
        for field in SECRETS:
            secret = environment.get(variable_name(field), "")
            assert CANARY not in secret or CANARY not in shown
    return ()


def assert_told_well(problems: tuple[str, ...]) -> None:
    for line in problems:
        assert line.isprintable(), repr(line)
        assert _LINE.match(line), repr(line)
        assert len(line) < 1000, f"{len(line)} characters: {line[:80]}"
        if line.startswith(tuple(MAY_HOLD_SECRETS)):
            assert CANARY not in line, line


@example({"SLUICE_UPSTREAM_URLS": f"u:{CANARY}@engine:8000"})
@example({"SLUICE_TRACE_FILE": "x" * 300})
@example({"WEB_CONCURRENCY": "9" * 5000})
@given(environments)
@examples(200)
def test_whatever_is_in_the_environment_is_valid_or_told_in_lines(
    environment: dict[str, str],
) -> None:
    assert_told_well(problems_of({"SLUICE_MAX_IN_FLIGHT": "4"} | environment))


@given(st.sampled_from(VARIABLES), st.one_of(st.sampled_from(_WORDS), values))
@examples(150)
def test_each_variable_takes_or_refuses_whatever_is_in_it(variable: str, value: str) -> None:
    """By itself: what is refused is told with the name of the variable."""
    problems = problems_of({"SLUICE_MAX_IN_FLIGHT": "4", variable: value})
    assert_told_well(problems)
    assert not problems or any(variable in line for line in problems), (value, problems)


@given(
    st.one_of(
        st.binary(max_size=40),
        st.lists(st.tuples(_names, values).map("=".join), max_size=5).map(
            lambda lines: (
                "\n".join(lines).encode("utf-8", "surrogateescape")
                if all(map(_can_be_set, lines))
                else b""
            )
        ),
    )
)
@examples(60)
def test_whatever_is_in_a_file_of_settings_is_valid_or_told_in_lines(content: bytes) -> None:
    assert_told_well(problems_of({"SLUICE_MAX_IN_FLIGHT": "4"}, content))
