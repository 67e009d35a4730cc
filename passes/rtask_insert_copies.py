"""`rtask-insert-copies`: copies operands of views, concatenations and returns.

An operand is copied if it cannot be computed in the buffer in which its user needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.effects import PLACED
from rammer_mlir.passes.base import Form, OperationError, Pass
from rammer_mlir.passes.fusion.grouping import is_cloned
from rammer_mlir.passes.fusion.placement import Conflict, Placement, Storage, place
from rammer_mlir.passes.ir.entry import entry_block, entry_function, functions, symbol_name
from rammer_mlir.passes.ir.outline import Outliner, clone_constants, create_operator
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.tiling.generated import generated_alignment


@dataclass(frozen=True)
class InsertCopies(Pass):
    """Copy tensors that views, concatenations or results cannot use in place.

    After this pass, strides can express every view, and every concatenated or returned tensor is
    computed directly in its final buffer. Generated rKernels of regions take only dense operands of
    a required alignment; other operands are copied. The entry function's attribute ``rtask.placed``
    prevents passes from merging equal rOperators that write their results to different places.
    """

    name: ClassVar[str] = "rtask-insert-copies"
    takes: ClassVar[Form | None] = Form.TENSORS_ALONE

    def run(self, module: ir.Module) -> None:
        """Insert rOperators that copy tensors until no operand needs a copy.

        Raises:
            OperationError: if an operand still needs a copy after it was copied, for example
                because `rtask-form-operators` has not run.
        """
        outliner = Outliner(module)
        copies: dict[tuple[ir.Operation, int], ir.Operation] = {}
        while conflicts := place(entry_block(module)).conflicts:
            for conflict in conflicts:
                use = (conflict.user.operation, conflict.index)
                if use in copies or conflict.user.operation in copies.values():
                    # The copied value has no storage at all: another copy does not help.
                    raise OperationError(
                        _producer(conflict, list(copies.values())),
                        "expected an rOperator, a view, a concatenation or a constant: run "
                        "rtask-form-operators first",
                    )
                copies[use] = _copy_operand(conflict, outliner)
        placement = place(entry_block(module))
        for op, alignment in _with_alignment(module):
            _align(op, alignment, placement, outliner)
        # Otherwise cse would merge two copies that must be in different places.
        entry_function(module).operation.attributes[PLACED] = ir.UnitAttr.get(module.context)


def _with_alignment(module: ir.Module) -> list[tuple[ir.OpView, int]]:
    """Return the rOperators with rKernels of code generators, each with its required alignment.

    The alignment is in bytes. If an rOperator has several such rKernels, the alignment is the
    largest that one of them requires.
    """
    all_alignments = ((symbol_name(f), generated_alignment(f)) for f in functions(module))
    alignments = {name: alignment for name, alignment in all_alignments if alignment is not None}
    found: list[tuple[ir.OpView, int]] = []
    for op in entry_block(module).operations:
        if op.operation.name == "rtask.operator":
            references = ir.ArrayAttr(op.operation.attributes["kernels"])
            names = [ir.FlatSymbolRefAttr(each).value for each in references]
            needed = [alignments[name] for name in names if name in alignments]
            if needed:
                found.append((op, max(needed)))
    return found


def _align(op: ir.OpView, alignment: int, placement: Placement, outliner: Outliner) -> None:
    """Copy the operands and results of an rOperator that are not dense or not aligned.

    Aligned means that the address is a multiple of ``alignment`` bytes. An operand is copied before
    the rOperator; a result is computed in a temporary buffer and copied to its place. The storage
    of copies and of temporary buffers is added to ``placement``, because recomputing the placement
    for each of thousands of rOperators would take minutes.
    """

    def is_off(value: ir.Value) -> bool:
        is_dense = placement.storage[value].layout.is_dense
        return 0 not in shape_of(value) and not (
            is_dense and placement.is_aligned(value, alignment)
        )

    for index, value in enumerate(op.operation.operands):
        if is_off(value):
            copied = _copy_operand(Conflict(op, index), outliner).results[0]
            placement.storage[copied] = Storage.own(copied)
    for result in [each for each in op.operation.results if is_off(each)]:
        kernel = outliner.function("copy", [result.type], list)
        uses = list(result.uses)
        copy = create_operator(kernel, [result], [result.type], op.location, _behind(op))
        for use in uses:
            use.owner.operation.operands[use.operand_number] = copy.results[0]
        placement.storage[copy.results[0]] = placement.storage[result]
        placement.storage[result] = Storage.own(result)


def _behind(op: ir.OpView) -> ir.InsertionPoint:
    return ir.InsertionPoint.after(op)


def _producer(conflict: Conflict, copies: Sequence[ir.Operation]) -> ir.Operation:
    """Return the operation that computes a conflict's operand, looking through copies.

    A conflict is an operand that needs a copy, and its user. ``copies`` are the rOperators that
    copy. If such an rOperator computes the operand, the search continues with the copied value. If
    the search ends at an argument of the function, return the operation that reads the argument:
    the first rOperator that copies the argument, or else the operand's user.
    """
    op = conflict.user.operation
    owner = op.operands[conflict.index].owner
    while not isinstance(owner, ir.Block):
        op = owner.operation
        if op not in copies:
            break
        owner = op.operands[0].owner
    return op


def _copy_operand(conflict: Conflict, outliner: Outliner) -> ir.Operation:
    """Replace a conflict's operand by a copy, which a new rOperator makes; return the rOperator.

    A conflict is an operand that needs a copy, and its user.
    """
    user = conflict.user.operation
    value = user.operands[conflict.index]
    owner = value.owner
    constant = not isinstance(owner, ir.Block) and is_cloned(owner.opview)

    def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
        if not constant:
            return list(arguments)
        mapping: dict[ir.Value, ir.Value] = {}
        clone_constants(value, mapping, ir.InsertionPoint.current)
        return [mapping[value]]

    inputs = [] if constant else [value]
    kernel = outliner.function("constant" if constant else "copy", [v.type for v in inputs], body)
    location = user.location if isinstance(owner, ir.Block) else owner.location
    call = create_operator(kernel, inputs, [value.type], location, ir.InsertionPoint(user))
    user.operands[conflict.index] = call.results[0]
    return call.operation
