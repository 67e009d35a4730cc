"""The concept index of CONTRIBUTING leads to files, and the glossary has each term once."""

from __future__ import annotations

import re

from tests.test_layering import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def rows(title: str) -> list[tuple[str, str]]:
    """Return the rows of the table below the heading ``title`` of CONTRIBUTING: two cells each."""
    section = CONTRIBUTING.partition(f"## {title}\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return table[2:] if table and table[1][0].startswith("---") else table[1:]


def test_every_concept_has_files_that_exist() -> None:
    concepts = rows("Concept index")
    assert len(concepts) > 70
    for concept, places in concepts:
        files = re.findall(r"`([\w./]+\.py)`", places)
        assert files, concept
        assert [file for file in files if not (ROOT / file).is_file()] == [], concept


def test_terms_and_concepts_are_in_alphabetical_order() -> None:
    for title in ("Glossary", "Concept index"):
        names = [name.lower() for name, _ in rows(title)]
        assert names == sorted(names)
        assert len(set(names)) == len(names)
