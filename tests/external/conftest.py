"""Code generators that tests of external rKernels share."""

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
    """Return the example's code generator, registered for a while."""
    runpy.run_path(str(EXAMPLE))
    yield CODEGENS.get("products")
    CODEGENS.unregister("products")
