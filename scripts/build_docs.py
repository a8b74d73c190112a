#!/usr/bin/env python3
"""Builds the documentation site from docs/ and the pages of the top folder; a warning is an error.

  scripts/build_docs.py [SITE]     SITE: where it goes, default build/site

In the repository a page links to files as they lie there. On the site some of these are pages under
another name, and some are not there at all: links to the first are turned, of the second only the
words are kept. Then MkDocs checks what is left, and no page may fetch anything from elsewhere.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
FROM_THE_TOP = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

_FENCE = re.compile(r"^ *(```|~~~)")
_LINK = re.compile(r"(!?)\[((?:`[^`]*`|[^\[\]`])*)\]\(([^()\s]+)\)")
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|#|/)")
_FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>|"
                      r"<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))"
                      r"[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>")  # fmt: skip


class SiteMap:
    """Which file of the repository is which page. Paths are POSIX, from the top of either."""

    def __init__(self, root: Path) -> None:
        self.root = root
        docs = root / "docs"
        files = sorted(path for path in docs.rglob("*") if path.is_file())
        self.places = {
            path.relative_to(root).as_posix(): path.relative_to(docs).as_posix() for path in files
        } | {source: place for source, place in FROM_THE_TOP.items() if (root / source).exists()}

    def turn_links(self, source: str, text: str) -> str:
        """The text of the page `source`, with its links as they are on the site."""
        return "".join(
            line if in_code else _LINK.sub(self._turner(source), line)
            for line, in_code in lines_in_code(text)
        )

    def _turner(self, source: str) -> Callable[[re.Match[str]], str]:
        def turned(link: re.Match[str]) -> str:
            mark, words, target = link.groups()
            if _ELSEWHERE.match(target):
                return link[0]
            path, hash_, anchor = target.partition("#")
            file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
            if file in self.places:
                here = posixpath.dirname(self.places[source]) or "."
                place = posixpath.relpath(self.places[file], here)
                return f"{mark}[{words}]({place}{hash_}{anchor})"
            is_ours = not file.startswith("..") and (self.root / file).exists()
            return words if is_ours else link[0]

        return turned


def lines_in_code(text: str) -> Iterator[tuple[str, bool]]:
    """Each line with its end, and whether it is part of a fenced block."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
            yield line, True
        else:
            yield line, bool(fence)
            if mark and mark[1] == fence:
                fence = ""


def filled_in(nav: list[Any], pages: list[str]) -> list[Any]:
    """`nav` with each `folder/*.md` replaced by the pages of that folder."""
    filled: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            filled += [
                {title: filled_in(below, pages) if isinstance(below, list) else below}
                for title, below in entry.items()
            ]
        elif entry.endswith("/*.md"):
            filled += [page for page in pages if posixpath.dirname(page) == entry[: -len("/*.md")]]
        else:
            filled.append(entry)
    return filled


def set_out(root: Path, stage: Path) -> None:
    """Writes `stage`/pages and `stage`/mkdocs.yml anew."""
    shutil.rmtree(stage, ignore_errors=True)
    site_map = SiteMap(root)
    for source, place in site_map.places.items():
        target = stage / "pages" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".md"):
            target.write_text(site_map.turn_links(source, (root / source).read_text()))
        else:
            shutil.copyfile(root / source, target)
    settings = yaml.safe_load((root / "mkdocs.yml").read_text())
    pages = [place for place in site_map.places.values() if place.endswith(".md")]
    settings["nav"] = filled_in(settings["nav"], pages)
    (stage / "mkdocs.yml").write_text(yaml.safe_dump(settings, allow_unicode=True))


def fetched_from_elsewhere(html: str) -> list[str]:
    """The tags that would make a browser ask another server as soon as it shows the page."""
    return _FETCHED.findall(html)


def complaints_of(site: Path, root: Path) -> str:
    """Builds the site of the repository `root`; what is wrong with it, or nothing."""
    stage = root / "build" / "docs"
    set_out(root, stage)
    # Not --quiet: what is not shown is not counted by --strict either.
    built = subprocess.run(  # noqa: S603 - our own interpreter and files
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file",
         str(stage / "mkdocs.yml"), "--site-dir", str(site.resolve())],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if built.returncode:
        return built.stdout + built.stderr
    return "".join(
        f"{page}: fetches from elsewhere: {tag}\n"
        for page in sorted(site.rglob("*.html"))
        for tag in fetched_from_elsewhere(page.read_text())
    )


def main(site: Path) -> int:
    complaints = complaints_of(site, ROOT)
    print(complaints or f"{sum(1 for _ in site.rglob('*.html'))} pages in {site}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))
