"""Finds fenced code, links and headings in the Markdown pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.test_layering import ROOT

DOCS = ROOT / "docs"
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.glob("*.md")),
)

FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?"
    r"^(?P<indent> *)(?P<mark>`{3,})(?P<language>[\w-]*)\n(?P<code>.*?)^(?P=indent)(?P=mark)$",
    re.MULTILINE | re.DOTALL,
)
"""Fenced code, and a comment on the line before it."""

_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """Fenced code of a page.

    Attributes:
        language: ``sh``, ``python``, ``text``, ...
        code: the lines between the fences.
        note: the comment on the line before, or an empty string.
        line: where the code begins in the page, from 1.
    """

    language: str
    code: str
    note: str
    line: int


def snippets(page: Path) -> Iterator[Snippet]:
    """Yield the fenced code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Snippet(match["language"], match["code"], match["note"] or "", line)


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links and pictures, without those in fenced code."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for match in _LINK.finditer(re.sub(r"`[^`\n]*`", "", text)):
        yield match["target"]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings: lowercase, dashes for spaces, no punctuation."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for match in _HEADING.finditer(text):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match["title"]).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-"))
    return found


def resolved(page: Path, target: str) -> tuple[Path, str]:
    """Return the file and the anchor to which a relative link of a page leads.

    ``target`` is the link's text. The anchor is empty if the link has none.
    """
    path, _, anchor = target.partition("#")
    return (Path(os.path.normpath(page.parent / path)) if path else page), anchor
