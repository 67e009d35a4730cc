"""Tests that the memory accesses of warps are counted in the trace of an emulated launch."""

from __future__ import annotations

import numpy as np
import pytest
from mapped_kernels import compile_mapped

from rammer_mlir.benchmarks.gpu import accesses
from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.emulation.device.traces import warp_accesses

THREADS, SIZE = 64, 64


@pytest.mark.parametrize(("access", "sectors"), [("(i, j)", 4), ("(i, j * 8)", 32), ("(i, 0)", 1)])
def test_sectors(access: str, sectors: int) -> None:
    """A warp's read of f32 elements touches the right number of 32-byte sectors.

    The number is 4 if the lanes read adjacent elements, 32 if the elements are 8 apart, and 1 if
    all lanes read the same element.
    """
    columns = 8 * SIZE if "8" in access else SIZE
    kind, wide = f"memref<{SIZE}x{SIZE}xf32>", f"memref<{SIZE}x{columns}xf32>"
    source = f"""
func.func @kernel(%id: index, %x: {wide}, %y: {kind}) {{
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> {access}>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : {wide}) outs(%y : {kind}) {{
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }}
  return
}}"""
    kernel, mapped = compile_mapped(source, [wide, kind], THREADS, lambda kernel: None, traced=True)
    x = np.random.default_rng(1).standard_normal((SIZE, columns)).astype(np.float32)
    y = np.zeros((SIZE, SIZE), np.float32)
    scratch = np.zeros(mapped.scratch_bytes, np.uint8)
    trace = launch(kernel, [x, y, scratch], Grid(1, THREADS))
    expected = {
        "(i, j)": x, "(i, j * 8)": x[:, ::8], "(i, 0)": np.repeat(x[:, :1], SIZE, 1)
    }[access]  # fmt: skip
    np.testing.assert_array_equal(y, expected)
    assert trace is not None and not trace.full
    # A thread computes four elements at a time, by four loads and stores in the code.
    found = warp_accesses(trace, 32)
    loads, stores = (
        [one for one in found if one.access.operation == f"llvm.{kind}"]
        for kind in ("load", "store")
    )
    executions = SIZE * SIZE // 32
    assert sum(one.executions for one in loads) == executions
    assert sum(one.lanes for one in loads) == SIZE * SIZE
    assert sum(one.sectors for one in loads) == sectors * executions
    assert sum(one.needed for one in loads) == (1 if access == "(i, 0)" else 4) * executions
    for count in ("sectors", "needed"):
        assert sum(getattr(one, count) for one in stores) == 4 * executions


def test_the_command_counts_a_models_accesses(capsys: pytest.CaptureFixture[str]) -> None:
    assert accesses.main(["one_element", "--veus", "1"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "one_element"
    assert len(rows) > 4 and all(row.startswith("|") for row in rows[2:-1])


def test_the_command_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert accesses.main(["no_model"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: model: expected one of") and error.count("\n") == 1
