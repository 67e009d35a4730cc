"""Tests that the properties that are read from a ``linalg.generic`` are right.

These are the extents of its loops, its factors, its buffers, and its linear index maps.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import linear_form
from rammer_mlir.passes.ir.structured import Structured, as_buffer, is_buffer, is_generic

WINDOWS = """
#x = affine_map<(i, j, k) -> (i, j * 2 + k)>
#w = affine_map<(i, j, k) -> (k)>
#s = affine_map<(i, j, k) -> ()>
#y = affine_map<(i, j, k) -> (i, j)>
func.func @f(%x: KIND<?x9xf32>, %w: KIND<3xf32>, %s: f32, %y: KIND<?x4xf32>) RESULT {
  CALL linalg.generic {indexing_maps = [#x, #w, #s, #y],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w, %s : KIND<?x9xf32>, KIND<3xf32>, f32) outs(%y : KIND<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %d, %p : f32
    linalg.yield %q : f32
  } END
  return RETURNED
}
"""

ON_BUFFERS = ("memref", "", "", "", "")
ON_TENSORS = ("tensor", "-> tensor<?x4xf32>", "%r =", "-> tensor<?x4xf32>",
              "%r : tensor<?x4xf32>")  # fmt: skip


@contextmanager
def windows(names: tuple[str, str, str, str, str]) -> Generator[Structured]:
    """Yield the ``linalg.generic`` of a convolution along the rows of a matrix.

    The number of rows is dynamic. ``names`` are ``ON_TENSORS`` or ``ON_BUFFERS``: the parts of the
    text that differ between tensors and buffers.
    """
    text = WINDOWS
    places = ("KIND", "RESULT", "CALL", "END", "RETURNED")
    for place, name in zip(places, names, strict=True):
        text = text.replace(place, name)
    with ir.Context():
        module = ir.Module.parse(text)
        operations = module.body.operations[0].operation.regions[0].blocks[0].operations
        (generic,) = [op for op in operations if is_generic(op)]
        yield Structured(generic)


@pytest.mark.parametrize("names", [ON_BUFFERS, ON_TENSORS], ids=["buffers", "tensors"])
def test_facts(names: tuple[str, str, str, str, str]) -> None:
    with windows(names) as generic:
        assert (generic.parallel_loops, generic.reduction_loops) == ((0, 1), (2,))
        assert generic.used_loops == [(0, 1, 2), (2,), (), (0, 1)]
        assert generic.operand_dims(0) is None and generic.result_dims(0) == [0, 1]
        assert [op.operation.name for op in generic.body] == ["arith.mulf", "arith.addf"]
        assert generic.yielded == list(generic.body[-1].operation.results)
        assert [generic.reads_input(n) for n in range(3)] == [True, True, False]
        assert generic.reads_output(0) and not generic.uses_index


def test_extents_are_those_of_dimensions_with_a_loop_of_their_own() -> None:
    """The extent of a loop is the size of a dimension that the loop alone indexes.

    The number of rows is open; dimensions that a sum of loops indexes are not used.
    """
    with windows(ON_BUFFERS) as generic:
        rows, columns, window = generic.extent_sources
        assert not rows.is_static and rows.value in (generic.operands[0], generic.operands[3])
        assert (columns.operand, columns.dimension, columns.size) == (3, 1, 4)
        assert (window.operand, window.dimension, window.size) == (1, 0, 3)
        assert ir.ShapedType.is_dynamic_size(generic.extents[0]) and generic.extents[1:] == [4, 3]


def test_buffers() -> None:
    with windows(ON_BUFFERS) as generic:
        assert [is_buffer(value) for value in generic.operands] == [True, True, False, True]
        assert as_buffer(generic.operands[1]).type.shape == [3]
        with pytest.raises(AssertionError, match="expected a memref, found f32"):
            as_buffer(generic.operands[2])


def test_factors() -> None:
    with windows(ON_BUFFERS) as generic:
        form = linear_form(generic.maps[0].results[1])
        assert form is not None
        assert (form.factors(3), form.constant) == ([0, 2, 1], 0)
