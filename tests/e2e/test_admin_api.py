"""The admin API, asked by Schemathesis for what its own description says and for what it does not.

Values just inside and outside of the bounds, bodies of other types, other methods, no token or
another one: every answer must be one that the description has, to the letter.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.capacity_probe import probe_capacity
from tests.support.gateway_process import eventually, gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream

if TYPE_CHECKING:
    from tests.support.gateway_process import GatewayProcess
    from tests.support.raw_client import RawAnswer

TOKEN = "the-token-of-an-operator"
WITH_TOKEN = {"authorization": f"Bearer {TOKEN}"}
SEATS = 4
# Seats: a number that nobody else chooses.
THE_LAST_CHANGE = 4_321
# A string is judged by the rules of the environment, which the description does not repeat; and a
# gateway that drains is not ready, which its description says but a general rule calls a fault.
NOT_CHECKED = "positive_data_acceptance,not_a_server_error"
_CHANGE = re.compile(r"(SLUICE_\w+) (\S+) -> (\S+)$")


async def ask_everything(sluice: GatewayProcess, folder: Path) -> None:
    """Fails with what Schemathesis says of the first few answers that are not as described."""
    asking = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("st"), "run", f"{sluice.admin_url}/openapi.json"),
        *("--header", f"Authorization: Bearer {TOKEN}", "--exclude-checks", NOT_CHECKED),
        *("--phases", "coverage,fuzzing", "--max-examples", "20", "--seed", "1", "--no-shrink"),
        *("--generation-database", "none", "--no-color", "--exclude-path", "/status/events"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
    )
    said = (await asking.communicate())[0].decode()
    assert asking.returncode == 0, said
    assert "Tested: 11" in said, f"something was left out:\n{said}"


def changes_in_the_log(sluice: GatewayProcess) -> list[tuple[str, Any, Any]]:
    """Which setting, from what, to what."""
    messages = [json.loads(line)["message"] for line in sluice.log if '"sluice.admin"' in line]
    found = [match.groups() for one in messages if (match := _CHANGE.search(one))]
    return [(name, json.loads(before), json.loads(after)) for name, before, after in found]


async def until_all_is_logged(sluice: GatewayProcess) -> None:
    """A log line is read from a pipe: it may come after the answer to the change that it tells of,
    but not after that of a later change."""
    last = {"max_in_flight": THE_LAST_CHANGE}
    assert (await admin(sluice, "PATCH", "/admin/settings", last)).status == 200

    def the_last_change_is_logged() -> bool:
        changed_to = [after for _, _, after in changes_in_the_log(sluice)]
        return THE_LAST_CHANGE in changed_to

    await eventually(the_last_change_is_logged)


async def admin(sluice: GatewayProcess, method: str, path: str, body: object = None) -> RawAnswer:
    content = b"" if body is None else json.dumps(body).encode()
    return await ask_once(sluice.admin_port, request_bytes(path, content, method, WITH_TOKEN))


def test_the_admin_api_does_what_its_description_says_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            ScriptedUpstream(behind_gateway=True) as upstream,
            gateway(upstream.url, max_in_flight=SEATS, admin_token=TOKEN, log_format="json") as one,
        ):
            await ask_everything(one, tmp_path)
            await until_all_is_logged(one)

            shown = json.loads((await admin(one, "GET", "/admin/settings")).body)
            now = {value["setting"]: value["at_start"] for value in shown.values()}
            changes = changes_in_the_log(one)
            for name, before, after in changes:
                assert now[name] == before, f"{name} was changed, and nobody wrote it down"
                now[name] = after
            assert now == {value["setting"]: value["now"] for value in shown.values()}
            assert {name for name, _, _ in changes} == set(now), "each was changed at least once"

            as_at_start = dict.fromkeys(shown)
            assert (await admin(one, "PATCH", "/admin/settings", as_at_start)).status == 200
            assert (await admin(one, "PUT", "/admin/drain", {"draining": False})).status == 200
            await probe_capacity(one, upstream, SEATS)

    asyncio.run(scenario())
