"""Arguments of launches that are not dense and row-major, or in another memory, are refused."""

from __future__ import annotations

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.embedding import compile_launches
from rammer_mlir.errors import UnsupportedError

KINDS = [
    "memref<4x32xf32, strided<[1, 4]>>",
    "memref<4x32xf32, strided<[40, 1]>>",
    "memref<4x32xf32, affine_map<(i, j) -> (j, i)>>",
    "memref<4x32xf32, 1>",
    "memref<4x32xf32, #gpu.address_space<global>>",
]


@pytest.mark.parametrize("kind", KINDS)
def test_other_layouts_and_memories(kind: str) -> None:
    text = f"""
    module attributes {{gpu.container_module}} {{
    func.func @host(%x: {kind}) {{
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c32 = arith.constant 32 : index
      gpu.launch_func @k::@double blocks in (%c4, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : {kind})
      return
    }}
    gpu.module @k {{
    gpu.func @double(%x: {kind}) kernel {{
      %i = gpu.block_id x
      %j = gpu.thread_id x
      %v = memref.load %x[%i, %j] : {kind}
      %d = arith.addf %v, %v : f32
      memref.store %d, %x[%i, %j] : {kind}
      gpu.return
    }}
    }}
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        with pytest.raises(UnsupportedError, match="expected a dense row-major memref") as caught:
            compile_launches(module, target="nvvm:sm_90", emulate=True)
    assert "\n" not in str(caught.value)
