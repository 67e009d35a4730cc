"""Splits a product with weights, and its elementwise readers, into parts of equal row count."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir, tensor
from rammer_mlir.passes.contractions.product import Product
from rammer_mlir.passes.contractions.row_readers import RowReaders
from rammer_mlir.passes.ir.generics import splat
from rammer_mlir.passes.ir.structured import Structured, shape_of


def split_product(product: Product, readers: RowReaders, steps: int) -> None:
    """Replace a product by several products, each for some consecutive rows of the result.

    A step is the ``readers.rows`` rows that a slice in ``readers`` reads. Each new product computes
    ``steps`` steps. If ``steps`` does not divide the total number of steps, the last product
    recomputes some steps of its predecessor.
    """
    last = (product.chain or (product.op,))[-1].operation
    # The last part overlaps its predecessor where the steps do not divide evenly: parts of equal
    # size share their code.
    begins = [min(n, readers.num_steps - steps) for n in range(0, readers.num_steps, steps)]
    with ir.InsertionPoint(last), last.location:
        parts = [_part(product, readers, begin, steps) for begin in begins]
    for user, step in zip(readers.slices, readers.steps, strict=True):
        part = step // steps
        user.operands[0] = parts[part]
        _move(user, step - begins[part])
    if readers.view is not None:
        readers.view.erase()
    for op in reversed((product.op, *product.chain)):
        op.operation.erase()


def _part(product: Product, readers: RowReaders, begin: int, steps: int) -> ir.Value:
    """Emit a product and its elementwise operations for some rows of its result; return these rows.

    The rows are those of ``steps`` consecutive steps, from the step of index ``begin`` on; a step
    is ``readers.rows`` rows. If the slices in ``readers`` read a ``tensor.expand_shape`` of the
    product, the returned rows are expanded in the same way.
    """
    rows = steps * readers.rows
    inner = shape_of(product.matrix)[1]
    element = ir.RankedTensorType(product.matrix.type).element_type
    matrix = tensor.ExtractSliceOp(
        ir.RankedTensorType.get([rows, inner], element), product.matrix, [], [], [],
        [begin * readers.rows, 0], [rows, inner], [1, 1],
    ).result  # fmt: skip
    value = _clone(product.op, product.matrix, matrix, _zeros(product, rows))
    before = product.op.operation.results[0]
    for op in product.chain:
        kind = ir.RankedTensorType(op.operation.results[0].type)
        start = tensor.EmptyOp([rows, product.columns], kind.element_type).result
        value = _clone(op, before, value, start)
        before = op.operation.results[0]
    return value if readers.view is None else _expand(readers.view, value, steps)


def _zeros(product: Product, rows: int) -> ir.Value:
    element = ir.RankedTensorType(product.op.operation.results[0].type).element_type
    zero = arith.ConstantOp(element, ir.FloatAttr.get(element, 0.0)).result
    return splat(zero, [rows, product.columns])


def _clone(op: ir.OpView, source: ir.Value, part: ir.Value, start: ir.Value) -> ir.Value:
    """Clone a ``linalg.generic`` for a part of its rows, and return the clone's result.

    Args:
        op: the generic.
        source: the input that ``part`` replaces.
        part: some rows of ``source``.
        start: the initial tensor of the result.
    """
    copy = op.operation.clone(ip=ir.InsertionPoint.current).operation
    for number, operand in enumerate(Structured(op).inputs):
        if operand == source:
            copy.operands[number] = part
    copy.operands[len(copy.operands) - 1] = start
    copy.results[0].set_type(start.type)
    return copy.results[0]


def _expand(view: ir.Operation, part: ir.Value, steps: int) -> ir.Value:
    whole = ir.RankedTensorType(view.results[0].type)
    shape = [steps, *list(whole.shape)[1:]]
    return tensor.ExpandShapeOp(
        ir.RankedTensorType.get(shape, whole.element_type), part,
        view.attributes["reassociation"], [], shape,
    ).result  # fmt: skip


def _move(user: ir.Operation, step: int) -> None:
    """Set the offset of the slice ``user`` in the first dimension of its operand to ``step``."""
    offsets: Sequence[int] = list(ir.DenseI64ArrayAttr(user.attributes["static_offsets"]))
    user.attributes["static_offsets"] = ir.DenseI64ArrayAttr.get([step, *offsets[1:]])
