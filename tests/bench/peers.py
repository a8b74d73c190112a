"""Where the contenders are and in which versions; scripts/setup_bench.sh installs them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.processes import ROOT, clean_environment

GOAL_PYTHON, OTHER_PYTHON = "3.13", "3.11"
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Peers:
    """Paths of what is run. `home` has one virtual environment for each contender."""

    home: Path
    haproxy: str
    wrk: str

    def program(self, environment: str, name: str) -> str:
        return str(self.home / environment / "bin" / name)

    def sluice_python(self, version: str) -> str:
        return self.program(f"sluice-{version}", "python")


def set_up() -> Peers:
    """Installs what is missing: a minute, the first time. Raises SystemExit when it cannot."""
    script = ROOT / "scripts" / "setup_bench.sh"
    done = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own
    if done.returncode != 0:
        raise SystemExit("what is compared could not be installed; see above")
    home = Path(done.stdout.strip())
    return Peers(home, haproxy=_system_program("haproxy"), wrk=_system_program("wrk"))


def _system_program(name: str) -> str:
    # Debian keeps haproxy where only root's path leads.
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)
    if found is None:
        raise SystemExit(f"{name} is not installed: apt-get install {name}")
    return found


def versions(peers: Peers) -> dict[str, str]:
    """What is compared, by name; Sluice by its commit."""
    python, routers = peers.program("python-proxies", "python"), ("vllm-router", "sglang-router")
    return {
        "Sluice": f"{_output('git', '-C', str(ROOT), 'describe', '--always', '--dirty')}, with "
        + _distributions(peers.sluice_python(GOAL_PYTHON), "uvicorn", "uvloop", "httptools"),
        "Python": ", ".join(
            _output(peers.sluice_python(version), "--version").removeprefix("Python ")
            for version in (GOAL_PYTHON, OTHER_PYTHON)
        ),
        **{
            router: _distributions(peers.program(router, "python"), router).split()[-1]
            for router in routers
        },
        "FastAPI proxies": _distributions(python, "fastapi", "httpx", "uvicorn", "uvloop"),
        "HAProxy": _output(peers.haproxy, "-v").split()[2],
        "wrk": _output(peers.wrk, "-v").split()[1],
    }


def _distributions(python: str, *names: str) -> str:
    script = (
        "import sys; from importlib.metadata import version as v;"
        "print(', '.join(f'{name} {v(name)}' for name in sys.argv[1:]))"
    )
    return _output(python, "-c", script, *names)


def _output(*command: str) -> str:
    done = subprocess.run(  # noqa: S603 - the programs above
        command, capture_output=True, text=True, check=False, env=clean_environment({})
    )
    return done.stdout.strip() or "unknown"
