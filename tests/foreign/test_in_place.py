"""Tests that elementwise operations that update their output operand in place are right.

Products of their results are right, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rammer_mlir

HEAD = """
#rows = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d1)>
#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d2, d1)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
"""

PRODUCT = """
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<12x24xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<12x24xf32>) -> tensor<12x24xf32>
    %p = linalg.generic {indexing_maps = [#x, #w, #y],
        iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%a, %w : tensor<12x40xf32>, tensor<40x24xf32>) outs(%f : tensor<12x24xf32>) {
    ^bb0(%l: f32, %r: f32, %sum: f32):
      %m = arith.mulf %l, %r : f32
      %n = arith.addf %m, %sum : f32
      linalg.yield %n : f32
    } -> tensor<12x24xf32>
"""


def one(maps: str, inputs: str, outputs: str, body: str) -> str:
    """Return MLIR text of ``%a``, an elementwise ``linalg.generic`` over 12 x 40 elements.

    Args:
        maps: the indexing maps.
        inputs: the clause ``ins(...)``; empty if the operation has no input.
        outputs: the output operand.
        body: the block with its arguments.
    """
    kind = "tensor<12x40xf32>"
    return f"""
    %a = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
        {inputs} outs({outputs} : {kind}) {{
    {body}
    }} -> {kind}"""


ADDED = "%one = arith.constant 1.0 : f32\n %s = arith.addf %o, %one : f32\n linalg.yield %s : f32"

Numbers = NDArray[np.float32]
Wanted = Callable[[Numbers, Numbers], Numbers]

CASES: dict[str, tuple[str, Wanted]] = {
    "alone": (one("#rows", "", "%x", f"^bb0(%o: f32):\n{ADDED}"), lambda x, b: x + 1),
    "with an input": (
        one(
            "#row, #rows", "ins(%b : tensor<40xf32>)", "%x",
            "^bb0(%i: f32, %o: f32):\n %s = arith.addf %i, %o : f32\n linalg.yield %s : f32",
        ),
        lambda x, b: x + b,
    ),
    "turned": (
        one(
            "#turned, #rows", "ins(%c : tensor<40x12xf32>)", "%x",
            "^bb0(%i: f32, %o: f32):\n %s = arith.addf %i, %o : f32\n linalg.yield %s : f32",
        ),
        lambda x, b: x + b[:, None].repeat(12, 1).T,
    ),
    "not read": (
        one(
            "#row, #rows", "ins(%b : tensor<40xf32>)", "%x",
            "^bb0(%i: f32, %o: f32):\n linalg.yield %i : f32",
        ),
        lambda x, b: x * 0 + b,
    ),
}  # fmt: skip


@pytest.mark.parametrize("num_veus", [1, 3])
@pytest.mark.parametrize("boundary", ["default", "none"])
@pytest.mark.parametrize("name", CASES)
def test_product_of_what_was_computed_in_place(name: str, boundary: str, num_veus: int) -> None:
    """The product of an in-place result is right, and the function's argument is unchanged."""
    nest, wanted = CASES[name]
    text = f"""{HEAD}
    func.func @main(%x: tensor<12x40xf32>, %b: tensor<40xf32>, %w: tensor<40x24xf32>)
        -> (tensor<12x24xf32>, tensor<12x40xf32>) {{
    %new = tensor.empty() : tensor<40x12xf32>
    %c = linalg.broadcast ins(%b : tensor<40xf32>) outs(%new : tensor<40x12xf32>) dimensions = [1]
    {nest}
    {PRODUCT}
    return %p, %x : tensor<12x24xf32>, tensor<12x40xf32>
    }}"""
    rng = np.random.default_rng(5)
    x, b, w = (rng.standard_normal(s).astype(np.float32) for s in ((12, 40), 40, (40, 24)))
    options: dict[str, Any] = {} if boundary == "default" else {"boundary": boundary}
    with rammer_mlir.compile(text, num_veus=num_veus, cache=False, **options) as exe:
        names = list(exe.input_names)
        product, untouched = exe.run(dict(zip(names, (x, b, w), strict=True))).values()
    np.testing.assert_allclose(product, wanted(x, b) @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(untouched, x)


def test_elements_that_are_not_written_keep_their_values() -> None:
    text = """func.func @main(%a: tensor<4xf32>, %b: tensor<4x3xf32>) -> tensor<4x3xf32> {
      %r = linalg.generic {
        indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0, 1)>],
        iterator_types = ["parallel"]
      } ins(%a : tensor<4xf32>) outs(%b : tensor<4x3xf32>) {
      ^bb0(%x: f32, %o: f32):
        %s = arith.addf %x, %o : f32
        linalg.yield %s : f32
      } -> tensor<4x3xf32>
      return %r : tensor<4x3xf32>
    }"""
    a, b = np.arange(4, dtype=np.float32), np.ones((4, 3), np.float32)
    with rammer_mlir.compile(text, cache=False) as exe:
        found = exe.run({"arg0": a, "arg1": b})["result0"]
    wanted = b.copy()
    wanted[:, 1] += a
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_layers_in_place(element: str) -> None:
    """Two layers whose bias and activation update the product in place give the right result."""
    text = HEAD + f"""
    func.func @main(%x: tensor<16x16x{element}>, %w: tensor<16x16x{element}>,
        %b: tensor<16x{element}>) -> tensor<16x16x{element}> {{
    %zero = arith.constant 0.0 : {element}
    %e = tensor.empty() : tensor<16x16x{element}>
    %f = linalg.fill ins(%zero : {element}) outs(%e : tensor<16x16x{element}>)
        -> tensor<16x16x{element}>
    """ + "".join(
        f"""
    %p{n} = linalg.matmul ins({before}, %w : tensor<16x16x{element}>, tensor<16x16x{element}>)
        outs(%f : tensor<16x16x{element}>) -> tensor<16x16x{element}>
    %s{n} = linalg.generic {{indexing_maps = [#row, #rows],
        iterator_types = ["parallel", "parallel"]}} ins(%b : tensor<16x{element}>)
        outs(%p{n} : tensor<16x16x{element}>) {{
    ^bb0(%i: {element}, %o: {element}):
      %s = arith.addf %i, %o : {element}
      linalg.yield %s : {element}
    }} -> tensor<16x16x{element}>
    %r{n} = linalg.generic {{indexing_maps = [#rows], iterator_types = ["parallel", "parallel"]}}
        outs(%s{n} : tensor<16x16x{element}>) {{
    ^bb0(%o: {element}):
      %m = arith.maximumf %o, %zero : {element}
      linalg.yield %m : {element}
    }} -> tensor<16x16x{element}>"""
        for n, before in enumerate(("%x", "%r0"))
    ) + f"\nreturn %r1 : tensor<16x16x{element}>\n}}"  # fmt: skip
    with rammer_mlir.compile(text, num_veus=2, cache=False) as exe:
        x_name, w_name, b_name = exe.input_names
        dtype = exe.signature.inputs[0].dtype
        assert dtype is not None
        rng = np.random.default_rng(6)
        shapes = ((16, 16), (16, 16), 16)
        x, w, b = ((rng.standard_normal(shape) / 4).astype(dtype) for shape in shapes)
        (found,) = exe.run({x_name: x, w_name: w, b_name: b}).values()
    wide = [np.asarray(each, np.float64) for each in (x, w, b)]
    layer = np.maximum(wide[0] @ wide[1] + wide[2], 0)
    wanted = np.maximum(layer @ wide[1] + wide[2], 0)
    tolerance = 1e-4 if element == "f32" else 5e-2
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, tolerance, tolerance)
