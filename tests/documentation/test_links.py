"""Relative links of the pages lead to files and headings that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documentation.pages import PAGES, anchors, links, resolved
from tests.test_layering import ROOT


def broken(page: Path, root: Path = ROOT) -> list[str]:
    """Return the relative links of a page that lead nowhere, or out of the folder ``root``."""
    found: list[str] = []
    for target in links(page):
        if "://" in target:
            continue
        path, anchor = resolved(page, target)
        missing = not path.exists() or not path.is_relative_to(root)
        if missing or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_and_anchors_exist(page: Path) -> None:
    assert broken(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `title`, here\n"
        "[a](#a-title-here) [b](#no-title) [c](none.md) [d](page.md#a-title-here)\n"
        "```sh\n[e](in_code.md)\n```\n[f](https://example.org) [g](../outside.md) ![h](none.svg)\n"
    )
    assert broken(page, tmp_path) == ["#no-title", "none.md", "../outside.md", "none.svg"]


def test_every_page_is_reachable_from_the_readme() -> None:
    """Each page is linked from the README, or from a page that the README links to."""
    reached = {ROOT / "README.md"}
    for _ in range(2):
        reached |= {
            resolved(page, target)[0]
            for page in reached
            if page.suffix == ".md" and page.is_file()
            for target in links(page)
            if "://" not in target
        }
    assert set(PAGES) <= reached
