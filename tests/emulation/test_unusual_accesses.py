"""Tests that rKernels are right if their accesses forbid wide loads or chains in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from mapped_kernels import compile_mapped
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.emulation.device.emulator import Grid, launch

THREADS = 128

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A test case: an rKernel on f32 memrefs, and the result that its last buffer must have.

    Attributes:
        name: name of the case.
        shapes: shapes of the buffers ``%0``, ``%1`` and so on.
        body: MLIR text of the rKernel's operations on these buffers.
        expected: returns the result, given the buffers as they are before the run.
    """

    name: str
    shapes: Sequence[tuple[int, ...]]
    body: str
    expected: Callable[[Sequence[Array]], Array]


def memref(shape: Sequence[int]) -> str:
    return f"memref<{'x'.join(map(str, shape))}xf32>"


def generic(maps: str, kinds: str, inputs: str, output: str, value: str = "%a") -> str:
    """Return the text of a ``linalg.generic``.

    Args:
        maps: results of the indexing maps, separated by ``;``.
        kinds: a letter for each loop: "p" for parallel, "r" for reduction.
        inputs: the inputs as ``value:type``, separated by ``;``.
        output: the output as ``value:type``.
        value: the yielded value, or "sum" or "products" for the output plus the input, or plus the
            product of two inputs.
    """
    names = {"p": '"parallel"', "r": '"reduction"'}
    loops = ", ".join(f"d{n}" for n in range(len(kinds)))
    sources = inputs.split(";")
    types = ", ".join(part.partition(":")[2] for part in sources)
    values = ", ".join(part.partition(":")[0] for part in sources)
    target, _, kind = output.partition(":")
    arguments = ", ".join(f"%{name}: f32" for name in "abc"[: len(sources)])
    lines = {
        "sum": "%n = arith.addf %o, %a : f32\n linalg.yield %n : f32",
        "products": "%m = arith.mulf %a, %b : f32\n %n = arith.addf %o, %m : f32\n"
        " linalg.yield %n : f32",
    }
    return f"""
  linalg.generic {{
      indexing_maps = [{", ".join(f"affine_map<({loops}) -> ({m})>" for m in maps.split(";"))}],
      iterator_types = [{", ".join(names[kind] for kind in kinds)}]}}
      ins({values} : {types}) outs({target} : {kind}) {{
  ^bb0({arguments}, %o: f32):
    {lines.get(value, f"linalg.yield {value} : f32")}
  }}"""


def fill(target: str) -> str:
    name, _, kind = target.partition(":")
    return f"\n  linalg.fill ins(%zero : f32) outs({name} : {kind})"


V8, V10, V16, V64 = (memref((n,)) for n in (8, 10, 16, 64))
M64, M512 = memref((64, 64)), memref((512, 512))
ROWS = memref((8, 32))


def with_diagonal(buffers: Sequence[Array]) -> Array:
    found = buffers[1].copy()
    np.fill_diagonal(found, buffers[0])
    return found


def added_to(place: int, value: float) -> Callable[[Sequence[Array]], Array]:
    def sums(buffers: Sequence[Array]) -> Array:
        found: Array = buffers[0].sum(1)
        found[place] += value
        return found

    return sums


CASES = [
    Case("a diagonal is read", [(512, 512), (512,)],
         generic("d0, d0;d0", "p", f"%0:{M512}", f"%1:{memref((512,))}"),
         lambda one: np.diag(one[0])),
    Case("a diagonal is written", [(512,), (512, 512)],
         generic("d0;d0, d0", "p", f"%0:{memref((512,))}", f"%1:{M512}"), with_diagonal),
    Case("traces", [(4, 512, 512), (4,)],
         generic("d0, d1, d1;d0", "pr", f"%0:{memref((4, 512, 512))}", f"%1:{memref((4,))}", "sum"),
         lambda one: one[1] + np.einsum("bii->b", one[0])),
    Case("columns of diagonals", [(64, 64, 64), (64,)],
         generic("d1, d0, d0;d0", "pr", f"%0:{memref((64, 64, 64))}", f"%1:{V64}", "sum"),
         lambda one: one[1] + np.einsum("kii->i", one[0])),
    Case("a factor of each column along the sum", [(64, 64), (64, 64), (64,)],
         generic("d1, d0;d0, d1;d0", "pr", f"%0:{M64};%1:{M64}", f"%2:{V64}", "products"),
         lambda one: one[2] + np.einsum("kj,jk->j", one[0], one[1])),
    Case("an initial value with a loop of its own", [(16, 32), (1, 16), (16,)],
         generic("d0, d1;d1", "pp", f"%1:{memref((1, 16))}", f"%2:{V16}")
         + generic("d0, d1;d0", "pr", f"%0:{memref((16, 32))}", f"%2:{V16}", "sum"),
         lambda one: one[1][0] + one[0].sum(1)),
    Case("an epilogue that writes a part", [(8, 32), (10,)],
         f"\n  %s = memref.alloc() : {V8}\n  %t = memref.alloc() : {V10}"
         + fill(f"%t:{V10}") + fill(f"%s:{V8}")
         + generic("d0, d1;d0", "pr", f"%0:{ROWS}", f"%s:{V8}", "sum")
         + generic("d0;d0 + 2", "p", f"%s:{V8}", f"%t:{V10}")
         + generic("d0;d0", "p", f"%t:{V10}", f"%1:{V10}"),
         lambda one: np.concatenate([[0, 0], one[0].sum(1)])),
    Case("a store after the initial value", [(8, 32), (8,)],
         fill(f"%1:{V8}") + f"\n  affine.store %five, %1[3] : {V8}"
         + generic("d0, d1;d0", "pr", f"%0:{ROWS}", f"%1:{V8}", "sum"), added_to(3, 5.0)),
    Case("an epilogue that loads other results", [(8, 32), (8,)],
         f"\n  %s = memref.alloc() : {V8}" + fill(f"%s:{V8}")
         + generic("d0, d1;d0", "pr", f"%0:{ROWS}", f"%s:{V8}", "sum")
         + generic("d0;d0", "p", f"%s:{V8}", f"%1:{V8}", "%z").replace(
             "linalg.yield", "%i = linalg.index 0 : index\n %j = arith.subi %seven, %i : index\n"
             f" %l = memref.load %s[%j] : {V8}\n %z = arith.addf %a, %l : f32\n linalg.yield"),
         lambda one: one[0].sum(1) + one[0].sum(1)[::-1]),
    Case("an epilogue in place that nobody reads", [(8, 32), (8,)],
         f"\n  %s = memref.alloc() : {V8}" + fill(f"%s:{V8}") + fill(f"%1:{V8}")
         + fill(f"%s:{V8}") + generic("d0, d1;d0", "pr", f"%0:{ROWS}", f"%s:{V8}", "sum")
         + generic("d0;d0", "p", f"%s:{V8}", f"%s:{V8}"), lambda one: np.zeros(8)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernels(case: Case) -> None:
    rng = np.random.default_rng(1)
    types = [memref(shape) for shape in case.shapes]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in case.shapes]
    expected = case.expected([array.astype(np.float64) for array in arrays])
    given = ", ".join(
        f"%{n}: {kind} {{rtask.alignment = 16 : i64}}" for n, kind in enumerate(types)
    )
    source = f"""
func.func @kernel(%id: index, {given}) {{
  %zero = arith.constant 0.0 : f32
  %five = arith.constant 5.0 : f32
  %seven = arith.constant 7 : index{case.body}
  return
}}"""
    kernel, mapped = compile_mapped(source, types, THREADS, lambda kernel: None)
    launch(kernel, [*arrays, np.zeros(mapped.scratch_bytes, np.uint8)], Grid(1, THREADS, 32))
    np.testing.assert_allclose(arrays[-1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("bii->b", ["4,64,64"]), ("ikk,kj->ij", ["8,64,64", "64,32"]), ("kj,jk->j", ["64,64"] * 2),
     ("kii->i", ["64,64,64"])],
)  # fmt: skip
def test_models(equation: str, shapes: list[str]) -> None:
    names = "xw"[: len(shapes)]
    inputs = ", ".join(f"float[{shape}] {name}" for name, shape in zip(names, shapes, strict=True))
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float[] y) '
        f'{{ y = Einsum<equation="{equation}">({", ".join(names)}) }}'
    )
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(2)
    feeds = {
        name: rng.standard_normal([int(n) for n in shape.split(",")]).astype(np.float32)
        for name, shape in zip(names, shapes, strict=True)
    }
    compiled = rammer_mlir.compile(model, target="nvvm:sm_80", num_veus=2, emulate=True)
    found = compiled.run(feeds)
    (expected,) = OnnxRuntime(model).run(feeds).values()
    y = np.asarray(found["y"], np.float64)
    np.testing.assert_allclose(y, np.asarray(expected, np.float64), rtol=1e-3, atol=1e-3)
