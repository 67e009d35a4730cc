"""Lets elementwise operations read the sources of broadcasts and fills.

StableHLO broadcasts every operand to the shape of the result. As separate operations, a bias or the
zero of a maximum would take as much memory as the result.
"""

from __future__ import annotations

from rammer_mlir.bindings import ir, linalg
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import cloned_body

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape")

_PARALLEL = "#linalg.iterator_type<parallel>"


def fold_broadcasts(module: ir.Module) -> None:
    """Replace operands of elementwise operations that are broadcast, transposed or filled tensors.

    The operations index the source of a broadcast or transposition instead, and use the scalar of a
    fill. Broadcasts of computed values, such as the maximum of each row, remain: they separate a
    reduction from operations on long rows, which would be fused with it in rTasks whose temporaries
    exceed the stack of a thread.
    """
    for op in list(operations_named(module.operation, "linalg.generic")):
        if _is_elementwise(op):
            _fold(op)


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(m).value for m in ir.ArrayAttr(op.attributes["indexing_maps"])]


def _is_elementwise(op: ir.Operation) -> bool:
    """Whether all loops of a ``linalg.generic`` are parallel, and it has one result."""
    kinds = ir.ArrayAttr(op.attributes["iterator_types"])
    return len(list(op.results)) == 1 and all(str(kind) == _PARALLEL for kind in kinds)


def _fold(op: ir.Operation) -> None:
    *reads, written = _maps(op)
    inputs: list[ir.Value] = []
    maps: list[ir.AffineMap] = []
    scalars: dict[int, ir.Value] = {}
    for number, (value, read) in enumerate(zip(op.operands, reads, strict=False)):
        source, index, scalar = _source(value, read)
        if scalar is not None:
            scalars[number] = scalar
        else:
            inputs.append(source)
            maps.append(index)
    if not scalars and inputs == list(op.operands)[: len(reads)]:
        return
    with ir.InsertionPoint(op), op.location:
        output = op.operands[len(reads)]
        made = generic(inputs, output, [*maps, written], [True] * written.n_dims)
        kinds = [ir.RankedTensorType(value.type).element_type for value in (*inputs, output)]
        block = made.regions[0].blocks.append(*kinds)
        rest = iter(block.arguments)
        values = [scalars.get(number) or next(rest) for number in range(len(reads) + 1)]
        with ir.InsertionPoint(block):
            linalg.YieldOp([cloned_body(op.regions[0].blocks[0], values)])
    replace(op, list(made.results))


def _source(value: ir.Value, read: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap, ir.Value | None]:
    """Return the tensor that ``value`` repeats or transposes, and how ``read`` indexes it.

    The third value is the scalar if ``value`` is a fill, else None.
    """
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name != "linalg.generic" or not _is_elementwise(op):
            break
        *reads, written = _maps(op)
        block = op.regions[0].blocks[0]
        yielded = list(block.operations)[-1].operation.operands[0]
        if written != ir.AffineMap.get_identity(written.n_dims):
            break
        if not reads and yielded.owner != block and not _is_inside(yielded, block):
            return value, read, yielded
        if len(reads) != 1 or yielded != block.arguments[0]:
            break
        if not _is_given(op.operands[0]):
            break
        results = [expr.compose(read) for expr in reads[0].results]
        value, read = op.operands[0], ir.AffineMap.get(read.n_dims, 0, results)
    return value, read, None


def _is_given(value: ir.Value) -> bool:
    """Whether ``value`` is an argument or a constant, or repeats or reshapes one."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "arith.constant":
            return True
        if op.name not in _VIEWS and (op.name != "linalg.generic" or not _copies_input(op)):
            return False
        value = op.operands[0]
    return True


def _copies_input(op: ir.Operation) -> bool:
    """Whether an elementwise ``linalg.generic`` has one input, and returns its elements."""
    block = op.regions[0].blocks[0]
    yielded = list(block.operations)[-1].operation.operands[0]
    return len(_maps(op)) == 2 and _is_elementwise(op) and yielded == block.arguments[0]


def _is_inside(value: ir.Value, block: ir.Block) -> bool:
    """Whether an operation of ``block`` computes ``value``."""
    return not isinstance(value.owner, ir.Block) and value.owner.operation.block == block
