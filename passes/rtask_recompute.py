"""`rtask-recompute`: recomputes values with long live ranges instead of storing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.fusion.grouping import VIEWS
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into, rename_operands
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.passes.memory.operator_steps import OperatorSteps, Root, read_steps
from rammer_mlir.scheduling.recomputation.live_range_gaps import Repeated
from rammer_mlir.scheduling.recomputation.search import search

_MOST_ROUNDS = 4
"""Maximum number of searches: clones may read more values whose recomputation saves memory."""


@dataclass(frozen=True)
class Recompute(Pass):
    """Clone rOperators before late readers, so that intermediates fit into ``memory`` bytes.

    A value that is kept in memory only for later readers is discarded and recomputed before the
    next reader; values that are cheapest to recompute come first (Dali; checkpoints of Chen et al.,
    2016). The limit applies to the bytes in use while the rOperators are executed in the order of
    the IR; `rtask-schedule` with the same ``memory`` observes it. If intermediates cannot fit, the
    choice with the lowest peak is taken. Results are bitwise equal: a clone calls the same
    rKernels.
    """

    name: ClassVar[str] = "rtask-recompute"
    takes: ClassVar[Form | None] = Form.TASKS

    memory: int = 0

    def check_options(self) -> None:
        """Raise an OptionError if ``memory`` is below 1 byte."""
        check_least(self, 1, "memory")

    def run(self, module: ir.Module) -> None:
        """Clone rOperators of the entry function before late readers; run after `rtask-tile`."""
        block, kernels = entry_block(module), described_kernels(module)
        for _ in range(_MOST_ROUNDS):
            read = read_steps(block, kernels)
            found = search(read.steps, self.memory)
            if not found.gaps or found.peak >= read.steps.peak:
                return
            _clone(block, read, found.repeated)


def _clone(block: ir.Block, read: OperatorSteps, repeated: Repeated) -> None:
    """Clone rOperators of a block, so that the block executes the sequence ``repeated``.

    ``repeated`` lists rOperators in the order of execution; an rOperator that occurs again is
    cloned there. rOperators after a clone read the clone's results. Views without uses are erased.
    """
    copies: dict[Root, ir.Value] = {}
    place = 0
    for origin, is_again in zip(repeated.origins, repeated.is_again, strict=True):
        op = read.operators[origin].operation
        if not is_again:
            rename_operands(op, _renamed(op, read, copies, ir.InsertionPoint(op)))
            place += 1
            continue
        reader = read.operators[place].operation
        ip = ir.InsertionPoint(reader)
        clone = op.clone(ip=ip).operation
        rename_operands(clone, _renamed(op, read, copies, ir.InsertionPoint(clone)))
        for old, new in zip(op.results, clone.results, strict=True):
            if not isinstance(read.root(old), int):
                copies[read.root(old)] = new
    _erase_unused_views(block)


def _renamed(
    op: ir.Operation, read: OperatorSteps, copies: dict[Root, ir.Value], ip: ir.InsertionPoint
) -> ValueMap:
    """Return a replacement for each operand of ``op`` that lies in a recomputed buffer.

    The replacement is the last clone's result, or a view of it if the operand is a view. The views
    are emitted as clones of the original views.

    Args:
        op: the rOperator that gets the replacements.
        read: the block's rOperators and buffers.
        copies: for each recomputed buffer, the result of the last clone that computes it.
        ip: the insertion point for clones of views.
    """
    mapping: ValueMap = {}
    for value in op.operands:
        root = read.root(value)
        if root in copies and value not in mapping:
            assert not isinstance(root, int)
            _view_again(value, root, {root: copies[root]}, mapping, ip)
    return mapping


def _view_again(
    value: ir.Value, root: ir.Value, known: ValueMap, mapping: ValueMap, ip: ir.InsertionPoint
) -> None:
    """Clone the chain of views through which ``value`` views the buffer ``root``.

    The clones are inserted at ``ip``, and view the buffer that replaces ``root``. ``known`` maps
    ``root`` to this buffer; the result of each clone is added to ``known``. ``mapping`` receives
    the last clone's result as the replacement of ``value``.
    """
    chain: list[ir.OpView] = []
    current = value
    while current != root:
        owner = current.owner
        assert not isinstance(owner, ir.Block), "a view of a root begins there"
        chain.append(owner.opview)
        current = owner.operation.operands[0]
    for view in reversed(chain):
        clone_into(view, known, ip)
    mapping[value] = known[value]


def _erase_unused_views(block: ir.Block) -> None:
    for op in reversed(list(block.operations)):
        if op.operation.name in VIEWS and not any(True for _ in op.operation.results[0].uses):
            op.operation.erase()
