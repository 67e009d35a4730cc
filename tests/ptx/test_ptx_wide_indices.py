"""Tests that indices beyond 32 bits are right in kernels whose own indices have 32 bits."""

from __future__ import annotations

import re

import numpy as np
from ptx_interpreter.driver import PtxDriver

from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.frontends.mlir.importer import read_entries
from rammer_mlir.frontends.mlir.sources import mlir_source_of
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.gpu.executable import GpuExecutable

_TEXT = """
func.func @main(%x: tensor<32xi64>, %s: tensor<8xf32>)
    -> (tensor<32xi64>, tensor<32xi64>, tensor<32xf32>) {
  %empty = tensor.empty() : tensor<32xi64>
  %hash = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]
  } outs(%empty : tensor<32xi64>) {
  ^bb0(%old: i64):
    %i = linalg.index 0 : index
    %factor = arith.constant 2654435761 : index
    %size = arith.constant 97 : index
    %product = arith.muli %i, %factor : index
    %rest = arith.remui %product, %size : index
    %wide = arith.index_cast %rest : index to i64
    linalg.yield %wide : i64
  } -> tensor<32xi64>
  %same = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
  } ins(%x : tensor<32xi64>) outs(%empty : tensor<32xi64>) {
  ^bb0(%v: i64, %old: i64):
    %i = arith.index_cast %v : i64 to index
    %j = linalg.index 0 : index
    %sum = arith.addi %i, %j : index
    %wide = arith.index_cast %sum : index to i64
    linalg.yield %wide : i64
  } -> tensor<32xi64>
  %places = tensor.expand_shape %x [[0, 1]] output_shape [32, 1]
    : tensor<32xi64> into tensor<32x1xi64>
  %elements = tensor.gather %s[%places] gather_dims([0])
    : (tensor<8xf32>, tensor<32x1xi64>) -> tensor<32xf32>
  return %hash, %same, %elements : tensor<32xi64>, tensor<32xi64>, tensor<32xf32>
}
"""


def test_indices_beyond_32_bits() -> None:
    x = np.arange(32) % 8
    x[:6] = [2**32 + 2, 2**32, -(2**40), 2**31 + 5, 2**33 - 1, -1]
    s = np.arange(8, dtype=np.float32) * 10
    source = mlir_source_of(_TEXT)
    assert source is not None
    (entry,) = read_entries(source)
    options = check_options("nvvm:sm_80", policy="wavefront", num_veus=2)
    compilation = Compilation(entry.bound({"arg0": x.shape, "arg1": s.shape}), options)
    ptx = compilation.emit("ptx").decode()
    image = compilation.image
    assert isinstance(image, GpuImage)
    executable = GpuExecutable(image, ptx.encode(), lambda: PtxDriver(image.chip))
    found = [np.asarray(each) for each in executable.run({"arg0": x, "arg1": s}).values()]
    np.testing.assert_array_equal(found[0], np.arange(32) * 2654435761 % 97)
    np.testing.assert_array_equal(found[1], x + np.arange(32))
    np.testing.assert_array_equal(found[2], s[np.clip(x, 0, 7)])
    # Addresses keep their 32-bit indices.
    assert re.search(r"mul\.wide|mad\.lo\.s32|shl\.b32", ptx)
