"""Matches rOperators that convolve images in channel blocks, with their epilogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.contraction import multiplies_and_adds
from rammer_mlir.passes.ir.fills import filling, starts_at_zero
from rammer_mlir.passes.ir.structured import (
    Structured,
    is_generic,
    plain_dim,
    shape_of,
)
from rammer_mlir.passes.tiling.kernel import Computation

_PLAIN_MAPS = (
    "(n, k, h, w, l, c, i, j, m) -> (n, c, h + i, w + j, m)",
    "(n, k, h, w, l, c, i, j, m) -> (k, c, i, j, m, l)",
    "(n, k, h, w, l, c, i, j, m) -> (n, k, h, w, l)",
)
"""Indexing maps of image, weight and result of a convolution with unit strides.

The loops ``l`` and ``m`` are the positions in blocks of output and of input channels.
"""

_GROUPED_MAPS = (
    "(n, g, k, h, w, l, c, i, j, m) -> (n, g, c, h + i, w + j, m)",
    "(n, g, k, h, w, l, c, i, j, m) -> (g, k, c, i, j, m, l)",
    "(n, g, k, h, w, l, c, i, j, m) -> (n, g, k, h, w, l)",
)
"""Indexing maps of image, weight and result of a grouped convolution with unit strides.

The loop ``g`` over groups indexes all three.
"""


@dataclass(frozen=True)
class BlockedConvolution:
    """A function that computes a convolution with unit strides and an elementwise epilogue.

    Attributes:
        computation: the function on whole tensors.
        image: index of the argument [N, C / L, H + window - 1, W + window - 1, L], in blocks of L
            channels. A grouped convolution has the group dimension second; C is then per group.
        weight: index of the argument [K / L, C / L, window, window, L, L]. A grouped convolution
            has the group dimension first; K and C are then per group.
        result: the convolution's result [N, K / L, H, W, L], or [N, G, K / L, H, W, L].
        epilogue: elementwise operations over the result's iteration space.
        transposes: for each returned value in another layout, the operation that transposes it. The
            operation's input is ``result`` or a value of the epilogue.
        expanded: the arguments of the epilogue with a dimension for rows or columns.
        window: rows and columns of the window.
    """

    computation: Computation
    image: int
    weight: int
    result: ir.Value
    epilogue: tuple[Structured, ...]
    transposes: Mapping[ir.Value, Structured]
    expanded: frozenset[ir.Value]
    window: tuple[int, int]

    @property
    def shape(self) -> list[int]:
        """The shape of the convolution's result."""
        return shape_of(self.result)

    @property
    def returned(self) -> list[ir.Value]:
        """The values to compute in blocks of channels.

        These are the values that the function returns; for a transposed value, the value before the
        transpose.
        """
        sources = {value: op.inputs[0] for value, op in self.transposes.items()}
        return list(dict.fromkeys(sources.get(v, v) for v in self.computation.returned))


def read_convolution(function: ir.OpView) -> BlockedConvolution | None:
    """Return the description of the convolution in channel blocks that a function computes.

    Return None unless the function consists of a convolution in channel blocks with unit strides,
    an elementwise epilogue and transposes.
    """
    computation = Computation(function)
    generics = [op for op in computation.generics if filling(op.op.operation.results[0]) is None]
    if not generics or not _is_convolution(generics[0]):
        return None
    names = {op.operation.name for op in computation.operations}
    if not names <= {"linalg.generic", "arith.constant", "tensor.empty"}:
        return None
    convolution, *others = generics
    arguments: list[ir.Value] = list(computation.block.arguments)
    image, weight = convolution.inputs
    if image not in arguments or weight not in arguments:
        return None
    result = convolution.op.operation.results[0]
    rank = len(shape_of(result))
    computed: set[ir.Value] = {result}
    epilogue: list[Structured] = []
    transposes: dict[ir.Value, Structured] = {}
    for op in others:
        results = op.op.operation.results
        if _is_transpose(op, rank, computed):
            transposes[results[0]] = op
        elif _is_epilogue(op, rank, computed, arguments):
            epilogue.append(op)
            computed.update(results)
        else:
            return None
    if not all(value in computed or value in transposes for value in computation.returned):
        return None
    shapes = [
        (value, map_) for op in epilogue for value, map_ in zip(op.inputs, op.maps, strict=False)
    ]
    expanded = frozenset(v for v, map_ in shapes if v in arguments and _moves(map_, rank))
    if any(value in expanded and not _is_whole(map_, rank) for value, map_ in shapes):
        return None
    if image in expanded or weight in expanded:
        return None
    window = shape_of(weight)[-4:-2]
    return BlockedConvolution(
        computation, arguments.index(image), arguments.index(weight), result,
        tuple(epilogue), transposes, expanded, (window[0], window[1]),
    )  # fmt: skip


def _is_convolution(op: Structured) -> bool:
    kinds = [ir.RankedTensorType(value.type).element_type for value in op.op.operation.operands]
    return (
        op.maps in (_parsed(_PLAIN_MAPS), _parsed(_GROUPED_MAPS))
        and multiplies_and_adds(op.op)
        and all(isinstance(kind, ir.F32Type) for kind in kinds)
        and starts_at_zero(op)
    )


def _parsed(maps: Sequence[str]) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(ir.Attribute.parse(f"affine_map<{text}>")).value for text in maps]


def _is_epilogue(
    op: Structured, rank: int, computed: set[ir.Value], arguments: list[ir.Value]
) -> bool:
    """Whether an operation is elementwise on the results of earlier operations.

    The operation may also read arguments of the function, if loops index their dimensions directly.

    Args:
        op: the operation.
        rank: the rank of the convolution's result.
        computed: the results of earlier operations.
        arguments: the arguments of the function.
    """
    if not op.is_elementwise or len(op.parallel) != rank or not is_generic(op.op):
        return False
    if op.uses_index or any(isinstance(value.owner, ir.Block) for value in op.captures):
        return False
    for number in range(op.num_outputs):
        if op.reads_output(number) or not _is_whole(op.maps[len(op.inputs) + number], rank):
            return False
    for value, map_ in zip(op.inputs, op.maps, strict=False):
        known = value in arguments or not isinstance(value.type, ir.RankedTensorType)
        if value in computed and _is_whole(map_, rank):
            continue
        if not known or any(plain_dim(expr) is None for expr in map_.results):
            return False
    return any(value in computed for value in op.inputs)


def _is_transpose(op: Structured, rank: int, computed: set[ir.Value]) -> bool:
    """Whether an operation only permutes the dimensions of a computed value of rank ``rank``."""
    order = op.permutation
    return (
        order is not None
        and order != list(range(rank))
        and op.inputs[0] in computed
        and not op.reads_output(0)
    )


def _is_whole(map_: ir.AffineMap, rank: int) -> bool:
    return [plain_dim(expr) for expr in map_.results] == list(range(rank))


def _moves(map_: ir.AffineMap, rank: int) -> bool:
    """Whether an operand's elements depend on the row or the column of the convolution's result.

    ``map_`` is the operand's indexing map, ``rank`` the rank of the result.
    """
    return any(plain_dim(expr) in (rank - 3, rank - 2) for expr in map_.results)
