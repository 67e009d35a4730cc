"""Formats text as Markdown."""

from __future__ import annotations


def escaped_cell(text: str) -> str:
    """Return ``text`` as a cell of a Markdown table: on one line, with escaped vertical bars."""
    return " ".join(text.split()).replace("|", "\\|")


def from_docstring(text: str) -> str:
    """Return the docstring ``text`` with Markdown's code marks in place of reStructuredText's."""
    return text.replace("``", "`")
