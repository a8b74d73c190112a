"""`sluice serve` as the image runs it: not root, nothing that can be written, no capabilities."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.gateway_process import gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream

USER = 10_001  # the image's; tests/architecture/test_image.py
# To read the interpreter wherever a machine keeps it, which may be root's home. It opens nothing
# for writing.
READ = "dac_read_search"
READ_BIT = 1 << 2

LOCKED = f"""
for at in $(findmnt -rno TARGET); do
    case $at in
        /dev/shm) mount -o remount,bind,ro $at ;;
        /proc* | /sys* | /dev*) ;;
        *) mount -o remount,bind,ro $at ;;
    esac
done
exec setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs \
    --inh-caps=-all,+{READ} --ambient-caps=-all,+{READ} --bounding-set=-all,+{READ} "$@"
"""
RUN_LOCKED = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", LOCKED, "sh")


@pytest.fixture(name="locked", scope="module")
def _locked() -> tuple[str, ...]:
    """To be put in front of a command."""
    try:
        command = [*RUN_LOCKED, "sh", "-c", "id -u; touch /tmp/x 2>&1; touch $PWD/x 2>&1"]
        tried = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - ours
    except OSError as error:
        pytest.skip(f"no mount namespaces: {error}")
    said = tried.stdout
    if said.split("\n")[0] != str(USER) or said.count("Read-only") != 2:
        pytest.skip(f"no mount namespaces: {said}{tried.stderr}")
    return RUN_LOCKED


def status_of(pid: int) -> dict[str, str]:
    return dict(
        re.findall(r"^(\w+):\s*(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    )


def test_it_serves_where_nothing_can_be_written_and_ends_in_good_order(
    locked: tuple[str, ...],
) -> None:
    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=2, run_by=locked, log_level="debug") as sluice,
        ):
            status = status_of(sluice.pid)
            assert status["Uid"].split() == [str(USER)] * 4
            assert status["NoNewPrivs"] == "1"
            assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == READ_BIT
            assert (await ask_once(sluice.port, request_bytes())).status == 200
            for page in ("/metrics", "/status", "/status.json", "/readyz"):
                answer = await ask_once(sluice.admin_port, request_bytes(page, b"", "GET"))
                assert answer.status == 200
        assert sluice.exit_code == 0
        assert not [line for line in sluice.log if "Read-only" in line]

    asyncio.run(scenario())
