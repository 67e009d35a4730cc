"""Fixtures for tests of the compile cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir.compiler import cache as compile_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test an empty compile cache, which also keeps programs that compile fast."""
    monkeypatch.setenv(compile_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(compile_cache, "WORTH_SECONDS", 0.0)
    return tmp_path / "cache"
