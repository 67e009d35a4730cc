"""Tests that copies of buffers between launches are right, and ordered with the launches.

The buffers are dense, strided or scalar, of f32 or bf16.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from megakernel import compile_launches, random_arrays
from numpy.typing import NDArray

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.embedding import compile_launches as embed
from rammer_mlir.errors import RammerError

DOUBLE = """
gpu.func @double(%x: memref<6x50xELEMENT>) kernel {
  %i = gpu.block_id x
  %j = gpu.thread_id x
  %v = memref.load %x[%i, %j] : memref<6x50xELEMENT>
  %w = arith.addf %v, %v : ELEMENT
  memref.store %w, %x[%i, %j] : memref<6x50xELEMENT>
  gpu.return
}"""


def program(signature: str, body: str, element: str = "f32") -> str:
    """Return MLIR text of a host function, and of a kernel that doubles a 6 x 50 buffer.

    Args:
        signature: arguments of the host function.
        body: operations of the host function; a line ``LAUNCH %x`` stands for a launch of the
            kernel on the buffer %x.
        element: element type of the kernel's buffer.
    """
    launched = (
        "gpu.launch_func @k::@double blocks in (%c6, %c1, %c1) threads in (%c50, %c1, %c1) args("
    )
    lines = [
        f"{launched}{line.split()[1]} : memref<6x50x{element}>)" if "LAUNCH" in line else line
        for line in body.splitlines()
    ]
    return f"""
module attributes {{gpu.container_module}} {{
func.func @host({signature}) {{
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %c50 = arith.constant 50 : index
  {chr(10).join(lines)}
  return
}}
gpu.module @k {{{DOUBLE.replace("ELEMENT", element)}
}}
}}"""


@pytest.mark.parametrize("target", ["nvvm", "rocdl"])
def test_copies_wait_for_launches_and_launches_for_copies(target: str) -> None:
    text = program(
        "%x: memref<6x50xf32>, %y: memref<6x50xf32>, %z: memref<6x50xf32>",
        """%t = memref.alloc() : memref<6x50xf32>
        memref.copy %x, %t : memref<6x50xf32> to memref<6x50xf32>
        LAUNCH %t
        memref.copy %t, %y : memref<6x50xf32> to memref<6x50xf32>
        LAUNCH %t
        memref.copy %t, %z : memref<6x50xf32> to memref<6x50xf32>""",
    )
    x, y, z = random_arrays(0, *[(6, 50)] * 3)
    compiled = compile_launches(text, target=target)
    after = compiled.run(x, y, z, runs=2)
    for found, wanted in zip(after, (x, 2 * x, 4 * x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_copies_of_parts() -> None:
    strided = "memref<3x20xf32, strided<[50, 1], offset: 105>>"
    other = "memref<3x20xf32, strided<[100, 2]>>"
    text = program(
        "%x: memref<6x50xf32>, %y: memref<6x50xf32>, %s: memref<f32>, %u: memref<f32>",
        f"""LAUNCH %x
        %p = memref.subview %x[2, 5] [3, 20] [1, 1] : memref<6x50xf32> to {strided}
        %q = memref.subview %y[0, 0] [3, 20] [2, 2] : memref<6x50xf32> to {other}
        memref.copy %p, %q : {strided} to {other}
        memref.copy %s, %u : memref<f32> to memref<f32>""",
    )
    x, y, s, u = random_arrays(0, (6, 50), (6, 50), (), ())
    after = compile_launches(text).run(x, y, s, u)
    wanted = y.copy()
    wanted[::2, :40:2] = 2 * x[2:5, 5:25]
    np.testing.assert_array_equal(after[1], wanted)
    assert after[3] == s


def test_bf16() -> None:
    """A program doubles and copies a bfloat16 array of the package ``ml_dtypes``."""
    kind = "memref<6x50xbf16>"
    text = program(
        f"%x: {kind}, %y: {kind} {{rtask.output}}",
        f"LAUNCH %x\nmemref.copy %x, %y : {kind} to {kind}",
        "bf16",
    )
    wide = np.random.default_rng(1).standard_normal((6, 50))
    x: NDArray[Any] = wide.astype(ml_dtypes.bfloat16)
    context = ir.Context()
    dialects.register(context)
    with context:
        module = ir.Module.parse(text)
    with embed(module, emulate=True, num_veus=2) as executable:
        found = executable.run({"arg0": x})
    for name in ("arg0", "arg1"):
        assert found[name].dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(found[name], x + x)


def test_a_copy_of_open_size_is_refused() -> None:
    text = program(
        "%x: memref<6x50xf32>, %y: memref<?xf32>, %z: memref<?xf32>",
        "LAUNCH %x\nmemref.copy %y, %z : memref<?xf32> to memref<?xf32>",
    )
    with pytest.raises(RammerError, match=r"'memref\.copy': expected static shapes, found memref<"):
        compile_launches(text)
