"""The documentation site: what its builder does to pages, and what no page may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.build_docs import SiteMap, complaints_of, fetched_from_elsewhere, filled_in, set_out

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
MOST_IMAGE_BYTES = 300_000


@pytest.fixture
def site_map(tmp_path: Path) -> SiteMap:
    for name in ("docs/a.md", "docs/howto/b.md", "CONTRIBUTING.md", "deploy/rules.yml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# Page\n")
    return SiteMap(tmp_path)


@pytest.mark.parametrize(
    ("source", "written", "on_the_site"),
    [
        ("docs/a.md", "[b](howto/b.md#x)", "[b](howto/b.md#x)"),
        ("docs/howto/b.md", "[how](../../CONTRIBUTING.md)", "[how](../contributing.md)"),
        ("CONTRIBUTING.md", "[a](docs/a.md), [b](docs/howto/b.md)", "[a](a.md), [b](howto/b.md)"),
        ("docs/a.md", "[`rules`](../deploy/rules.yml) and [all](../deploy)", "`rules` and all"),
        ("docs/a.md", "[x](https://x.org/a.md) [y](#y)", "[x](https://x.org/a.md) [y](#y)"),
        ("docs/a.md", "[gone](gone.md) [out](../../out.md)", "[gone](gone.md) [out](../../out.md)"),
        ("docs/a.md", "```\n[a](../deploy)\n```\n", "```\n[a](../deploy)\n```\n"),
    ],
    ids=["page", "top folder", "from the top", "no page", "elsewhere", "dead, for MkDocs", "code"],
)  # fmt: skip
def test_a_link_leads_on_the_site_where_it_leads_in_the_repository(
    site_map: SiteMap, source: str, written: str, on_the_site: str
) -> None:
    assert site_map.turn_links(source, written) == on_the_site


def test_a_folder_in_the_navigation_is_its_pages() -> None:
    pages = ["a.md", "b.md", "d/1.md", "d/2.md", "e/d/3.md"]
    nav = filled_in([{"Start": ["a.md"]}, {"Why": ["d/*.md"]}, {"One": "b.md"}], pages)
    assert nav == [{"Start": ["a.md"]}, {"Why": ["d/1.md", "d/2.md"]}, {"One": "b.md"}]


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://unpkg.com/x.js"></script>',
        "<img alt=x src=//cdn.org/x.png>",
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<link href="https://fonts.example" rel="preconnect">',
    ],
)
def test_what_a_page_fetches_from_elsewhere_is_found(tag: str) -> None:
    assert len(fetched_from_elsewhere(f"<p>{tag}</p>")) == 1


def test_what_a_reader_has_to_click_is_not_fetched() -> None:
    html = (
        '<a href="https://x.org">x</a><link rel="canonical" href="https://x.org"><img src="a.png">'
    )
    assert fetched_from_elsewhere(html) == []


def a_site(root: Path, text: str) -> Path:
    """A repository with our settings for MkDocs and one page in the menu."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text()) | {"nav": ["index.md"]}
    (root / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    (root / "docs").mkdir()
    (root / "docs" / "index.md").write_text(text)
    return root


def test_a_sound_site_is_built_without_complaint(tmp_path: Path) -> None:
    assert complaints_of(tmp_path / "site", a_site(tmp_path, "# Home\n\n## A\n\n[a](#a)\n")) == ""


def test_whatever_is_broken_fails_the_build(tmp_path: Path) -> None:
    a_site(tmp_path, "# Home\n\n[a](gone.md) [b](#gone) ![c](gone.png) [d](../../gone/)\n")
    (tmp_path / "docs" / "orphan.md").write_text("# In no menu\n")
    complaints = complaints_of(tmp_path / "site", tmp_path)
    for broken in ("'gone.md'", "'#gone'", "'gone.png'", "'../../gone/'", "orphan.md"):
        assert broken in complaints


def test_a_picture_from_elsewhere_fails_the_build(tmp_path: Path) -> None:
    root = a_site(tmp_path, "# Home\n\n![a](https://cdn.example/a.png)\n")
    assert "https://cdn.example/a.png" in complaints_of(tmp_path / "site", root)


def listed(nav: str | list[Any] | dict[str, Any]) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    below = nav.values() if isinstance(nav, dict) else nav
    return {page for entry in below for page in listed(entry)}


def test_every_page_is_in_the_navigation(tmp_path: Path) -> None:
    """`make docs` says so as well; here it takes no second."""
    set_out(ROOT, tmp_path / "stage")
    pages = {
        path.relative_to(tmp_path / "stage" / "pages").as_posix()
        for path in (tmp_path / "stage" / "pages").rglob("*.md")
    }
    settings = yaml.safe_load((tmp_path / "stage" / "mkdocs.yml").read_text())
    assert listed(settings["nav"]) == pages


def test_the_pictures_together_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in IMAGES.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < MOST_IMAGE_BYTES, json.dumps(sizes)
