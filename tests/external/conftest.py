"""Fixture with a code generator for tests of external rKernels."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rammer_mlir.passes.regions.codegen import CODEGENS

EXAMPLE = Path(__file__).parents[2] / "examples/your_own_codegen.py"


@pytest.fixture
def products() -> Iterator[Any]:
    """Return the code generator of `examples/your_own_codegen.py`, registered during the test."""
    runpy.run_path(str(EXAMPLE))
    yield CODEGENS.get("products")
    CODEGENS.unregister("products")
