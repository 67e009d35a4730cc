"""The code of each of the project's code generators, without shared code, is small."""

from __future__ import annotations

import pytest

from rammer_mlir.benchmarks.offload.integration import integration_lines
from rammer_mlir.passes.regions.codegen import CODEGENS

MOST_LINES = 800


@pytest.mark.parametrize("name", [n for n in CODEGENS.names() if CODEGENS.is_built_in(n)])
def test_integrations_are_small(name: str) -> None:
    assert 0 < integration_lines(CODEGENS.get(name)) <= MOST_LINES
