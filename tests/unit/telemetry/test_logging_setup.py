from __future__ import annotations

import json
import logging
import warnings
from typing import TYPE_CHECKING

import pytest

from proxy.telemetry.line_writer import LineWriter
from proxy.telemetry.log_format import LogFormat
from proxy.telemetry.logging_setup import configure_logging
from tests.support.logging_as_it_was import logging_as_it_was

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def written(
    path: Path, act: Callable[[], None], level: str = "info", form: LogFormat = LogFormat.JSON
) -> str:
    """What a process set up in this way writes while it does something."""
    writer = LineWriter.to_file(path / "log")
    with logging_as_it_was():
        configure_logging(level, form, writer)
        act()
    writer.close()
    return (path / "log").read_text()


def fail_with(message: str) -> None:
    try:
        raise RuntimeError(message)
    except RuntimeError:
        logging.getLogger("proxy.edge").exception("request %s failed", "req-1")


def test_a_record_is_one_json_object(tmp_path: Path) -> None:
    text = written(tmp_path, lambda: logging.getLogger("proxy").info("started on %s", 8080))
    line = json.loads(text)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "logger": "proxy", "message": "started on 8080"}


def test_a_traceback_stays_on_its_json_line(tmp_path: Path) -> None:
    text = written(tmp_path, lambda: fail_with("boom"))
    assert text.count("\n") == 1
    line = json.loads(text)
    assert line["message"] == "request req-1 failed"
    assert line["traceback"].startswith("Traceback (most recent call last):\n")
    assert line["traceback"].endswith("\nRuntimeError\n")


def test_a_traceback_on_the_console_is_indented_below_its_message(tmp_path: Path) -> None:
    text = written(tmp_path, lambda: fail_with("boom"), form=LogFormat.CONSOLE)
    first, *rest = text.splitlines()
    assert first.endswith("error    request req-1 failed")
    assert rest[0] == "  Traceback (most recent call last):"
    assert rest[-1] == "  RuntimeError"


@pytest.mark.parametrize("form", LogFormat)
def test_a_message_cannot_forge_a_line_or_repaint_the_terminal(
    tmp_path: Path, form: LogFormat
) -> None:
    logger = logging.getLogger("proxy")
    text = written(tmp_path, lambda: logger.warning("id %s", "x\nforged\x1b[2J"), form=form)
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_an_exception_cannot_forge_a_line_on_the_console(tmp_path: Path) -> None:
    text = written(tmp_path, lambda: fail_with("x\r12:00:00 forged"), form=LogFormat.CONSOLE)
    assert all(line.startswith("  ") for line in text.splitlines()[1:])


@pytest.mark.parametrize("form", LogFormat)
def test_credentials_are_masked_in_messages_and_tracebacks(tmp_path: Path, form: LogFormat) -> None:
    def act() -> None:
        logging.getLogger("proxy").warning("sent %s", [(b"authorization", b"Bearer kanari")])
        fail_with("cannot reach http://u:kanari@engine/v1?key=kanari")

    text = written(tmp_path, act, form=form)
    assert "raise RuntimeError(message)" in text
    assert "kanari" not in text


@pytest.mark.parametrize("form", LogFormat)
def test_a_line_that_cannot_be_made_stops_nobody_and_what_was_to_be_in_it_is_not_told(
    tmp_path: Path, form: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        logging.getLogger("proxy.edge").warning("%d requests", "kanari")

    text = written(tmp_path, act, form=form)
    assert "a line of proxy.edge is lost: TypeError" in text
    assert text.count("\n") == 1
    assert (form is LogFormat.JSON) == text.startswith("{")
    assert "kanari" not in text
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["httpx", "httpcore.http11", "asyncio", "uvicorn.error"])
def test_libraries_do_not_talk_about_urls_and_headers_even_at_debug(
    tmp_path: Path, name: str
) -> None:
    def act() -> None:
        logging.getLogger(name).debug("debug")
        logging.getLogger(name).info("info")
        logging.getLogger(name).warning("warning")

    lines = written(tmp_path, act, level="debug").splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["warning"]


def test_a_quieter_level_quiets_libraries_too(tmp_path: Path) -> None:
    text = written(tmp_path, lambda: logging.getLogger("httpx").warning("no"), level="error")
    assert text == ""


def test_the_servers_own_access_log_is_off(tmp_path: Path) -> None:
    text = written(tmp_path, lambda: logging.getLogger("uvicorn.access").warning("GET /?key=a"))
    assert text == ""


def test_our_own_debug_lines_appear_at_debug(tmp_path: Path) -> None:
    text = written(tmp_path, lambda: logging.getLogger("proxy").debug("detail"), level="DEBUG")
    assert json.loads(text)["level"] == "debug"


def test_warnings_of_python_are_log_lines(tmp_path: Path) -> None:
    def act() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(capture=True)
            warnings.warn("old thing", DeprecationWarning, stacklevel=1)

    assert "old thing" in json.loads(written(tmp_path, act))["message"]


def test_a_flush_at_exit_gets_the_last_lines_out(tmp_path: Path) -> None:
    writer = LineWriter.to_file(tmp_path / "log")
    with logging_as_it_was():
        configure_logging("info", LogFormat.JSON, writer)
        logging.getLogger("proxy").info("last words")
        logging.getLogger().handlers[0].flush()
        assert "last words" in (tmp_path / "log").read_text()
    writer.close()


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="LOUD"):
        written(tmp_path, lambda: None, level="loud")


def test_who_changed_what_is_written_at_any_level(tmp_path: Path) -> None:
    def act() -> None:
        logging.getLogger("sluice.admin").warning("drain on")
        logging.getLogger("sluice.engine").warning("not shown")

    assert written(tmp_path, act, level="error").count("\n") == 1
