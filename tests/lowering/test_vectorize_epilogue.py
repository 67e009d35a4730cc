"""Tests that elementwise operations after a product become its epilogue where this is correct.

The results are right in both cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_harness import compile_kernel

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.epilogue import find_epilogue
from rammer_mlir.lowering.ir_walk import walk

_RANDOM = np.random.default_rng(0)
_ROWS, _COLUMNS, _DEPTH = 21, 37, 29


@dataclass(frozen=True)
class Case:
    """An rKernel to compile: a matrix product, and an elementwise sum of the product and an addend.

    Attributes:
        to: buffer of the product, by its name in MLIR, such as "%y".
        into: buffer of the sum.
        plus: buffer of the addend.
        by: indices of the addend's elements, as text.
        write: indices of the sum's elements, as text.
        after: buffer that is copied after the sum; empty for none.
    """

    to: str
    into: str
    plus: str = "%r"
    by: str = "(i, j)"
    write: str = "(i, j)"
    after: str = ""


FUSED = {
    "in place": Case("%y", "%y"),
    "through a temporary": Case("%t", "%y"),
    "one addend for each column": Case("%y", "%y", plus="%b", by="(j)"),
    "transposed into the result": Case("%t", "%z", write="(j, i)"),
    "the product is read again": Case("%t", "%y", after="%t"),
    "over the addend": Case("%t", "%r"),
}
SEPARATE = {
    "over a factor": Case("%t", "%a", plus="%c"),
    "the product in another place": Case("%s", "%y", plus="%s", by="(j, i)"),
}


def _source(case: Case) -> str:
    n, m, k = _ROWS, _COLUMNS, _DEPTH
    kinds = {"%a": (n, k), "%w": (k, m), "%b": (m,), "%z": (m, n)}
    if case in SEPARATE.values():
        n = m = k = _DEPTH
        kinds = {"%a": (n, n), "%w": (n, n), "%b": (n,), "%z": (n, n)}

    def kind(name: str) -> str:
        return f"memref<{'x'.join(map(str, kinds.get(name, (n, m))))}xf32>"

    again = f"""
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}}
      ins({case.after} : {kind(case.after)}) outs(%s : {kind("%s")}) {{
  ^bb0(%p: f32, %q: f32):
    linalg.yield %p : f32
  }}"""
    return f"""
func.func private @k(%id: index, %a: {kind("%a")}, %w: {kind("%w")}, %b: {kind("%b")},
    %r: {kind("%r")}, %s: {kind("%s")}, %c: {kind("%c")}, %y: {kind("%y")}, %z: {kind("%z")}) {{
  %t = memref.alloc() : {kind("%t")}
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs({case.to} : {kind(case.to)})
  linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
      affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %w : {kind("%a")}, {kind("%w")}) outs({case.to} : {kind(case.to)}) {{
  ^bb0(%p: f32, %q: f32, %o: f32):
    %v = arith.mulf %p, %q : f32
    %x = arith.addf %o, %v : f32
    linalg.yield %x : f32
  }}
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> {case.by}>,
      affine_map<(i, j) -> {case.write}>], iterator_types = ["parallel", "parallel"]}}
      ins({case.to}, {case.plus} : {kind(case.to)}, {kind(case.plus)})
      outs({case.into} : {kind(case.into)}) {{
  ^bb0(%p: f32, %q: f32, %o: f32):
    %x = arith.addf %p, %q : f32
    linalg.yield %x : f32
  }}{again if case.after else ""}
  return
}}"""


def _epilogues(source: str) -> int:
    with ir.Context():
        module = ir.Module.parse(source)
        generics = [o for o in walk(module.operation) if o.name == "linalg.generic"]
        return sum(find_epilogue(operation) is not None for operation in generics)


@pytest.mark.parametrize("name", [*FUSED, *SEPARATE])
def test_sums_behind_a_product(name: str) -> None:
    case = (FUSED | SEPARATE)[name]
    source = _source(case)
    assert _epilogues(source) == (name in FUSED)
    n, m, k = (_ROWS, _COLUMNS, _DEPTH) if name in FUSED else (_DEPTH,) * 3
    shapes = {
        "%a": (n, k), "%w": (k, m), "%b": (m,), "%r": (n, m), "%s": (n, m),
        "%c": (n, m), "%y": (n, m), "%z": (m, n),
    }  # fmt: skip
    arrays = {
        key: _RANDOM.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()
    }
    product = arrays["%a"].astype(np.float64) @ arrays["%w"]
    before = arrays | {case.to: product}
    addend = before[case.plus]
    total = product + (addend.T if case.by == "(j, i)" else addend)
    expected = total.T if case.write == "(j, i)" else total
    compile_kernel(source)(0, *arrays.values())
    np.testing.assert_allclose(arrays[case.into], expected, rtol=1e-4, atol=1e-4)
    if case.after:
        np.testing.assert_allclose(arrays["%s"], product, rtol=1e-4, atol=1e-4)
