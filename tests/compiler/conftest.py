"""Fixtures for tests of the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir.compiler import cache as compile_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a cache of this test's own, for small programs too."""
    monkeypatch.setenv(compile_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(compile_cache, "WORTH_SECONDS", 0.0)
    return tmp_path / "cache"
