"""Replaces a convolution by one or three rOperators of Winograd's minimal filtering.

The steps are: transform the image, multiply it by the weights, and transform the sums back. One
rOperator does all steps, or each step is an rOperator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.cloning import ValueMap
from rammer_mlir.passes.ir.generics import transposed
from rammer_mlir.passes.ir.outline import Outliner, clone_constants, create_operator
from rammer_mlir.passes.ir.structured import Structured, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.winograd.blocked_convolution import BlockedConvolution
from rammer_mlir.passes.winograd.choice import Form
from rammer_mlir.passes.winograd.filtering import Filtering
from rammer_mlir.passes.winograd.tiles import join_tiles, split_tiles, with_whole_tiles
from rammer_mlir.passes.winograd.winograd_contractions import (
    follow,
    multiply_tiles,
    transform_image,
    transform_sums,
)

_Body = Callable[[Sequence[ir.Value]], list[ir.Value]]


@dataclass(frozen=True)
class WinogradOperators:
    """Replaces the calls of a convolution by the rOperators of Winograd's filtering.

    Attributes:
        convolution: the convolution.
        form: the variant of Winograd's filtering, which has one rOperator or three.
        weights: the module's weights, to which transformed weights are added.
        outliner: creates the functions of the rOperators.
    """

    convolution: BlockedConvolution
    form: Form
    weights: DerivedWeights
    outliner: Outliner

    def replace(self, call: ir.Operation) -> None:
        """Emit Winograd's rOperators before ``call``; replace the uses of the call's results."""
        convolution, filtering = self.convolution, self.form.filtering
        operands = list(call.operands)
        with ir.InsertionPoint(call), call.location:
            image = with_whole_tiles(
                operands[convolution.image], convolution.shape, filtering.outputs
            )
            weight = _transformed(operands[convolution.weight], filtering, self.weights)
            emit = self._strips if self.form.strips else self._separate
            computed = convolution.returned
            results = emit(call, image, weight, self._others(operands))
            joined = {
                value: join_tiles(result, shape_of(value))
                for value, result in zip(computed, results, strict=True)
            }
            for old, value in zip(call.results, convolution.computation.returned, strict=True):
                if value in joined:
                    new = joined[value]
                else:
                    op = convolution.transposes[value]
                    new = self._transposed(call, op, joined[op.inputs[0]])
                old.replace_all_uses_with(new)

    def _transposed(self, call: ir.Operation, op: Structured, source: ir.Value) -> ir.Value:
        """Emit an rOperator that transposes ``source`` as ``op`` does, and return its result."""
        shape = shape_of(op.op.operation.results[0])
        read, written = op.operand_dims(0), op.operand_dims(1)
        assert read is not None and written is not None

        def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            return [transposed(arguments[0], shape, read, written)]

        return self._call("transpose", call, [source], body)[0]

    def _strips(
        self, call: ir.Operation, image: ir.Value, weight: ir.Value, others: list[ir.Value]
    ) -> list[ir.Value]:
        def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            tiles = transform_image(arguments[0], self.form.filtering)
            return self._finish(multiply_tiles(tiles, arguments[1]), arguments[2:])

        return self._call("winograd", call, [image, weight, *others], body)

    def _separate(
        self, call: ir.Operation, image: ir.Value, weight: ir.Value, others: list[ir.Value]
    ) -> list[ir.Value]:
        def transform(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            return [transform_image(arguments[0], self.form.filtering)]

        def multiply(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            return [multiply_tiles(arguments[0], arguments[1])]

        def finish(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            return self._finish(arguments[0], arguments[1:])

        tiles = self._call("winograd_image", call, [image], transform)
        sums = self._call("winograd_product", call, [*tiles, weight], multiply)
        return self._call("winograd_result", call, [*sums, *others], finish)

    def _call(
        self, kind: str, call: ir.Operation, operands: Sequence[ir.Value], body: _Body
    ) -> list[ir.Value]:
        kinds: list[ir.Type] = []

        def recorded(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            results = body(arguments)
            kinds.extend(value.type for value in results)
            return results

        kernel = self.outliner.function(kind, [value.type for value in operands], recorded)
        new = create_operator(kernel, operands, kinds, call.location, ir.InsertionPoint(call))
        return list(new.results)

    def _finish(self, sums: ir.Value, others: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit the inverse transform of ``sums``, and the epilogue; return the epilogue's results.

        Args:
            sums: the products of transformed tiles and weights, summed over the channels.
            others: the epilogue's operands; operands with rows and columns are in tiles.
        """
        convolution = self.convolution
        result = transform_sums(sums, self.form.filtering)
        mapping: ValueMap = {convolution.result: result}
        mapping.update(zip((value for _, value in self._other_arguments()), others, strict=True))
        for op in convolution.epilogue:
            for value in [*op.captures, *op.inputs]:
                clone_constants(value, mapping, ir.InsertionPoint.current)
            operands = [mapping[value] for value in op.inputs]
            results = follow(op, operands, shape_of(result), mapping)
            mapping.update(zip(op.op.operation.results, results, strict=True))
        return [mapping[value] for value in convolution.returned]

    def _others(self, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Return a call's operands except for image and weight.

        Operands with rows and columns are returned in tiles.
        """
        return [
            split_tiles(operands[number], self.form.filtering.outputs)
            if value in self.convolution.expanded
            else operands[number]
            for number, value in self._other_arguments()
        ]

    def _other_arguments(self) -> list[tuple[int, ir.Value]]:
        convolution = self.convolution
        taken = (convolution.image, convolution.weight)
        arguments = enumerate(convolution.computation.block.arguments)
        return [(number, value) for number, value in arguments if number not in taken]


def _transformed(weight: ir.Value, filtering: Filtering, weights: DerivedWeights) -> ir.Value:
    """Return the transformed weights [r, r, K, C, L, L] of a convolution.

    The weights are transformed at compile time. K and C count output and input blocks of L
    channels. Both the weights and the transformed weights of a grouped convolution have a dimension
    of groups before K.

    Args:
        weight: the weight [K, C, taps, taps, L, L].
        filtering: the matrices of F(m, taps); r is ``filtering.size``.
        weights: the module's weights, to which the transformed weight is added.
    """
    *around, row, column, lanes, lane = range(len(shape_of(weight)))
    first, second, *others = range(len(shape_of(weight)))
    windows = weights.transpose(weight, [row, column, *around, lanes, lane])
    rows = weights.multiply(windows, filtering.kernel)
    both = weights.multiply(weights.transpose(rows, [second, first, *others]), filtering.kernel)
    return weights.transpose(both, [second, first, *others])
