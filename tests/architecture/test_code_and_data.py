"""What the gateway reads never becomes code, and nothing that guards it is left out of a build.

The linter says so for each line; here its exceptions are counted, comments that ask it to look away
included.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "proxy").rglob("*.py"))
RUFF = Path(sys.executable).with_name("ruff")

# Random numbers are jitter and load, never secrets; to listen on all interfaces is a setting.
OF_NO_CONCERN = ("S104", "S311")
KNOWN = {
    # Our own interpreter with our own modules.
    ("proxy/cli/beside.py", "S603"),
    ("proxy/cli/replay_child.py", "S603"),
    # The command that the user names, without a shell.
    ("proxy/supervision/keeper.py", "S606"),
}
# Reading what these have written can run anything that is written there.
RUN_WHAT_THEY_READ = {
    *("pickle", "cPickle", "dill", "cloudpickle", "jsonpickle", "marshal", "shelve"),
    *("yaml", "ruamel", "code", "codeop", "runpy", "xmlrpc"),
}
RUN_THEIR_ARGUMENT = {"eval", "exec", "compile", "__import__"}


def findings(*paths: str) -> set[tuple[str, str]]:
    """File and rule of all that the linter's security rules find, whatever is written beside it."""
    chosen = ("--select", "S", "--ignore", ",".join(OF_NO_CONCERN), "--ignore-noqa")
    command = [str(RUFF), "check", *chosen, "--no-cache", "--output-format", "json", *paths]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)  # noqa: S603 - ours
    return {
        (Path(one["filename"]).relative_to(ROOT).as_posix(), one["code"])
        for one in json.loads(found.stdout)
    }


def test_the_linters_security_rules_find_what_is_known_and_nothing_else() -> None:
    assert findings("proxy") == KNOWN


def test_the_linter_sees_through_a_comment_that_asks_it_not_to(tmp_path: Path) -> None:
    bad = ROOT / "build" / f"{tmp_path.name}.py"
    bad.parent.mkdir(exist_ok=True)
    bad.write_text("assert eval('1')  # noqa: S101, S307\n")
    try:
        found = findings(str(bad))
    finally:
        bad.unlink()
    assert {code for _, code in found} == {"S101", "S307"}


def modules_imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def runs_what_it_reads(source: Path) -> set[str]:
    tree = ast.parse(source.read_text())
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return (modules_imported(tree) & RUN_WHAT_THEY_READ) | (called & RUN_THEIR_ARGUMENT)


def test_nothing_that_is_read_is_run() -> None:
    assert {one: found for one in SOURCES if (found := runs_what_it_reads(one))} == {}


def test_what_would_run_it_is_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from yaml.loader import Loader\nimport pickle as p\neval(p.x)\n")
    assert runs_what_it_reads(bad) == {"yaml", "pickle", "eval"}
