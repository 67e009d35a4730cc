"""Tests of models that compute masks, positions and shapes from the shapes of inputs.

Each model is run with inputs of several lengths.
"""

from __future__ import annotations

import exported
import numpy as np
import pytest
from node_checks import expected_outputs

import rammer_mlir


@pytest.mark.parametrize("length", [1, 7, 33, 64, 200, 1025])
@pytest.mark.parametrize("name", exported.MODELS)
def test_what_shapes_decide_is_computed(name: str, length: int) -> None:
    model = exported.MODELS[name]()
    feeds = exported.feeds(model, length)
    shapes = {key: value.shape for key, value in feeds.items()}
    (expected,) = expected_outputs(model, feeds).values()
    with rammer_mlir.compile(model, shapes=shapes, num_veus=2, cache=False) as executable:
        (found,) = executable.run(feeds).values()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
