"""Tests that a user's rKernels with declared boxes, in a stage given as MLIR, are compiled.

The rKernels are written in IR, C or LLVM IR.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import RammerError

MAIN = """
rtask.kernel @rows rtasks(8) operations(32) bytes(128) {external} {{
  reads 0[d0 +: 1, 0 +: 16]
  writes 1[d0 +: 1, 0 +: 16]
}}
func.func @main(%x: tensor<8x16xf32> {{rtask.name = "x"}})
    -> (tensor<8x16xf32> {{rtask.name = "y"}}) {{
  %0 = rtask.operator @rows(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}}"""

HELPERS = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func private @triple(%v: f32) -> f32 {
  %three = arith.constant 3.0 : f32
  %w = arith.mulf %v, %three : f32
  return %w : f32
}
func.func private @row(%row: tensor<1x16xf32>, %out: tensor<1x16xf32>) -> tensor<1x16xf32> {
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%row : tensor<1x16xf32>) outs(%out : tensor<1x16xf32>) {
  ^bb0(%v: f32, %old: f32):
    %w = func.call @triple(%v) : (f32) -> f32
    linalg.yield %w : f32
  } -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}
func.func private @rows(%id: index, %x: tensor<8x16xf32>, %y: tensor<8x16xf32>)
    -> tensor<8x16xf32> {
  %in = tensor.extract_slice %x[%id, 0] [1, 16] [1, 1] : tensor<8x16xf32> to tensor<1x16xf32>
  %out = tensor.extract_slice %y[%id, 0] [1, 16] [1, 1] : tensor<8x16xf32> to tensor<1x16xf32>
  %0 = func.call @row(%in, %out) : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
  %1 = tensor.insert_slice %0 into %y[%id, 0] [1, 16] [1, 1]
      : tensor<1x16xf32> into tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}"""

DECLARED = """
func.func private @rows(index, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
"""

EXTERNAL = 'attributes {external = {module = @code, symbol = "c_rows"}}'

C = r"""
"rtask.module"() {sym_name = "code", form = "c", code = "
#include <stdint.h>
int32_t c_rows(int64_t row, const float *x, float *y) {
  for (int i = 0; i < 16; i++) y[16 * row + i] = 3 * x[16 * row + i];
  return 0;
}"} : () -> ()""".replace("\n", "\\0A").replace('\\0A"rtask', '\n"rtask')

LLVM = """
define {result} @c_rows(i64 %row, {threads}ptr %x, ptr %y) {{
entry:
  %start = mul i64 %row, 16
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = add i64 %start, %i
  %from = getelementptr float, ptr %x, i64 %at
  %v = load float, ptr %from
  %w = fmul float %v, 3.0
  %to = getelementptr float, ptr %y, i64 %at
  store float %w, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %end
end:
  ret {returned}
}}"""


def llvm_module(result: str, returned: str, threads: str = "") -> str:
    text = LLVM.format(result=result, returned=returned, threads=threads).replace("\n", "\\0A")
    return f'"rtask.module"() {{sym_name = "code", form = "llvm", code = "{text}"}} : () -> ()\n'


FORMS = {
    "ir": HELPERS + MAIN.format(external=""),
    "c": C + DECLARED + MAIN.format(external=EXTERNAL),
    "llvm": llvm_module("i32", "i32 0") + DECLARED + MAIN.format(external=EXTERNAL),
}

X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("costs", ["", "measured"])
def test_an_rkernel_of_ones_own(form: str, costs: str) -> None:
    exe = rammer_mlir.compile(FORMS[form], num_veus=2, costs=costs or None)
    assert np.array_equal(exe.run({"x": X})["y"], 3 * X)


@pytest.mark.parametrize("form", ["ir", "llvm"])
def test_on_a_gpu(form: str) -> None:
    given = FORMS["ir"]
    if form == "llvm":
        code = llvm_module("void", "void", "i32 %thread, i32 %threads, ")
        given = code + DECLARED + MAIN.format(external=EXTERNAL)
    exe = rammer_mlir.compile(given, target="nvvm:sm_90", num_veus=2, emulate=True)
    assert np.array_equal(exe.run({"x": X})["y"], 3 * X)


@pytest.mark.parametrize(
    ("target", "costs"), [("cpu", None), ("cpu", "measured"), ("nvvm:sm_90", None)]
)
def test_a_declaration_is_refused(target: str, costs: str | None, tmp_path: Path) -> None:
    file = tmp_path / "own.mlir"
    declared = """
func.func private @elsewhere(memref<8x16xf32>)
func.func private @k(%id: index, %y: memref<8x16xf32>) {
  func.call @elsewhere(%y) : (memref<8x16xf32>) -> ()
  return
}
rtask.kernel @k rtasks(1) operations(1) bytes(1) {
  writes 0[0 +: 8, 0 +: 16]
}
func.func @main(%y: memref<8x16xf32> {rtask.name = "y", rtask.output}) {
  rtask.operator 0 @k(%y) : (memref<8x16xf32>) -> ()
  return
}"""
    file.write_text(declared)
    with pytest.raises(RammerError) as refused:
        rammer_mlir.compile(file, target=target, costs=costs)
    assert str(refused.value) == (
        f"{file}:4:3: 'func.call': expected a function with a body, found the declaration "
        "@elsewhere: write an rtask.kernel with 'external' and an rtask.module with its code"
    )
