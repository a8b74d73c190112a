from __future__ import annotations

import asyncio
import errno
import sys
import threading

import pytest
import uvloop

from proxy.telemetry.last_resort import faults_in_the_log, log_loop_fault, print_uncaught

CANARY = "canary of a client"


def fail() -> None:
    raise ValueError(CANARY)


def fail_with(_data: bytes) -> None:
    fail()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_fault_in_the_event_loop_is_told_without_anybodys_data(
    new_loop: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(new_loop)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(log_loop_fault)
        loop.call_soon(fail_with, CANARY.encode())
        task = asyncio.create_task(asyncio.to_thread(fail), name="a task")
        await asyncio.wait([task])
        del task
        loop.call_exception_handler({"message": f"Fatal error on <T {CANARY}>"})
        loop.call_exception_handler({})

    with asyncio.Runner(loop_factory=new_loop, debug=True) as runner:
        runner.run(scenario())
    said = [record.getMessage() for record in caplog.records]
    assert sorted(said) == [
        "A fault in the event loop",
        "Exception",
        "Fatal error on",
        "Task exception was never retrieved (a task)",
    ]
    assert sum(record.exc_info is not None for record in caplog.records) == 2


def test_a_listener_without_descriptors_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    said = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, "Too many open files"),
        "socket": None,
    }
    with asyncio.Runner() as runner:
        log_loop_fault(runner.get_loop(), said)
    (record,) = caplog.records
    assert record.getMessage() == "socket.accept() out of system resource: Too many open files"
    assert (record.levelname, record.exc_info) == ("WARNING", None)


def test_a_thread_that_ends_by_a_fault_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    before = threading.excepthook, sys.unraisablehook
    with faults_in_the_log():
        thread = threading.Thread(target=fail, name="worker of a test")
        thread.start()
        thread.join()
    assert (threading.excepthook, sys.unraisablehook) == before
    (record,) = caplog.records
    assert record.getMessage() == "The thread 'worker of a test' ended by a fault"
    assert record.exc_info is not None


class FailsAtItsEnd:
    def __del__(self) -> None:
        fail()


def test_a_fault_from_where_nothing_can_be_raised_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with faults_in_the_log():
        FailsAtItsEnd()
    (record,) = caplog.records
    assert record.getMessage() == "A fault where no exception can be raised"


def test_what_ends_a_process_is_told_without_anybodys_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        fail()
    except ValueError as error:
        print_uncaught(ValueError, error, error.__traceback__)
    told = capsys.readouterr().err
    assert told.splitlines()[-1] == "ValueError"
    assert "in fail" in told
    assert CANARY not in told


def test_ctrl_c_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    print_uncaught(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == "KeyboardInterrupt\n"
