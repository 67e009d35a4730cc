"""Tests that programs with external rKernels, compiled to PTX, give ONNX Runtime's outputs.

The PTX is interpreted.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_models import check_runs

from rammer_mlir.lowering.nvvm.nvidia_tools import find_tool
from rammer_mlir.lowering.nvvm.nvrtc import find_nvrtc
from tests.external.gpu_code import TRIPLED_CUDA, TRIPLED_IR, TRIPLED_PTX, tripled_product
from tests.external.providers import COLUMNS, ROWS, Rows, offered

needs_cuda = pytest.mark.skipif(
    find_nvrtc() is None and find_tool("nvcc") is None, reason="needs NVRTC or nvcc"
)


@pytest.mark.parametrize(
    "rows",
    [
        Rows(TRIPLED_PTX, "ptx"),
        Rows(TRIPLED_IR, "llvm"),
        pytest.param(Rows(TRIPLED_CUDA, "cuda"), marks=needs_cuda),
    ],
    ids=lambda rows: rows.form,
)
def test_runs_beside_own_rkernels(rows: Rows) -> None:
    """A program is right if it calls an external rKernel beside those that the compiler generates.

    The external rKernel uses shared memory and barriers.
    """
    rng = np.random.default_rng(0)
    shapes = {"x": (ROWS, COLUMNS), "w": (COLUMNS, 8)}
    feeds = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    with offered(rows):
        ptx = check_runs(tripled_product(), feeds, policy="list", rkernels="rows", costs="favour")
    assert re.search(r"call\.uni\s+rows", ptx) and ".extern" not in ptx
