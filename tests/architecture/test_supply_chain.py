"""What the image is made of: written down in full, audited without fooling oneself, and not older
than the advisories that were looked at by hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from proxy import __version__
from scripts.audit import CLEAN, NOBODY_KNOWS, VULNERABLE, judge
from scripts.sbom import as_text, bill, own_version, read_lock

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock")
TEXTS = {lock: (ROOT / "deploy" / lock).read_text() for lock in LOCKS}
PAGE = (ROOT / "docs" / "security.md").read_text()


def pinned(lock: str) -> dict[str, str]:
    """By another way than the script's."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", TEXTS[lock], re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


# The bill of materials.


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_the_lock_is_in_the_bill(lock: str) -> None:
    text = as_text(bill(read_lock(TEXTS[lock]), own_version()))
    document = json.loads(text)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    components = document["components"]
    assert {one["name"]: one["version"] for one in components} == pinned(lock)
    assert sum(len(one["hashes"]) for one in components) == TEXTS[lock].count("--hash=sha256:")
    assert {one["purl"] for one in components} == {
        f"pkg:pypi/{name}@{version}" for name, version in pinned(lock).items()
    }
    assert document["metadata"]["component"]["version"] == __version__


def test_the_bill_says_what_needs_what() -> None:
    document = bill(read_lock(TEXTS["requirements.lock"]), "1")
    needs = {one["ref"]: one["dependsOn"] for one in document["dependencies"]}
    refs = {one["bom-ref"] for one in document["components"]}
    assert needs.keys() == refs | {"pkg:pypi/vllm-sluice@1"}
    named = {ref.partition("@")[0]: list(map(name_of, found)) for ref, found in needs.items()}
    assert "fastapi" in named["pkg:pypi/vllm-sluice"]
    assert "httpcore" in named["pkg:pypi/httpx"]
    assert "vllm-sluice" not in str(list(named.values()))
    assert {one for found in needs.values() for one in found} == refs, "each is there for somebody"


def name_of(purl: str) -> str:
    return purl.removeprefix("pkg:pypi/").partition("@")[0]


def test_the_same_lock_gives_the_same_bill() -> None:
    pins = read_lock(TEXTS["requirements.lock"])
    assert as_text(bill(pins, "1")) == as_text(bill(pins, "1"))
    assert as_text(bill(pins, "1")) != as_text(bill(pins[1:], "1"))


def test_what_is_not_understood_is_not_left_out() -> None:
    with pytest.raises(ValueError, match="line 2 is no pin"):
        read_lock("a==1\nb @ git+https://example.test/b\n")


# The audit.


def report(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found and could not be audited"}


def test_a_clean_audit_is_clean() -> None:
    verdict = judge({"lock": report(GOOD)})
    assert (verdict.exit_code, verdict.lines) == (
        CLEAN,
        ("1 packages, none with a known advisory",),
    )


def test_an_advisory_is_told_whatever_else_is_unknown() -> None:
    verdict = judge({"lock": report(GOOD, BAD, SKIPPED), "other": ""})
    assert verdict.exit_code == VULNERABLE
    assert verdict.lines[0] == "lock: b 2: CVE-1, fixed in 3"


@pytest.mark.parametrize(
    "written", [report(GOOD, SKIPPED), report(), "", "[]", "no network", "null"]
)
def test_what_was_not_asked_about_is_not_taken_for_clean(written: str) -> None:
    verdict = judge({"lock": written})
    assert verdict.exit_code == NOBODY_KNOWS
    assert "NOT AUDITED" in verdict.lines[-1]


# The review by hand.

REVIEWED = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \| ", PAGE, re.MULTILINE)


def test_no_package_is_older_than_the_fix_of_an_advisory_that_was_looked_at() -> None:
    assert len(REVIEWED) > 5
    locked = pinned("requirements.lock")
    old = {
        name: locked.get(name)
        for name, fixed in REVIEWED
        if name not in locked or Version(locked[name]) < Version(fixed)
    }
    assert old == {}
