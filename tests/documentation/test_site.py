"""The documentation builds as a site, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.pages import DOCS
from tests.test_layering import ROOT


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path),
         "--config-file", str(DOCS / "site" / "mkdocs.yml")],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    built = {page.stem for page in tmp_path.glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} <= built


def test_every_page_is_in_the_navigation() -> None:
    navigation = (DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert [page.name for page in DOCS.glob("*.md") if f": {page.name}\n" not in navigation] == []
