"""Maps an rKernel's tile to the threads of a block.

All threads of a block execute an rKernel together. A ``linalg.generic`` is computed by its plan (as
a contraction with staged operands, for example), or else its iterations are distributed over the
threads. The threads also compute the initial values and the epilogues of the results in registers
(``result_chains.py``). A block barrier follows every operation that writes memory. The surrounding
control flow and scalars are uniform: every thread computes them, and a single thread executes
stores outside of ``linalg``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, gpu, ir, scf
from rammer_mlir.lowering.gpu.column_plan import ColumnPlan
from rammer_mlir.lowering.gpu.column_reductions import emit_columns
from rammer_mlir.lowering.gpu.contractions.contraction import StagingMemory, emit_contraction
from rammer_mlir.lowering.gpu.contractions.plan_matching import PLAN, Plan
from rammer_mlir.lowering.gpu.contractions.staging import Copies
from rammer_mlir.lowering.gpu.result_chains import ResultChain, marked_chains
from rammer_mlir.lowering.gpu.results import Results
from rammer_mlir.lowering.gpu.temporaries import erase_unused_allocations
from rammer_mlir.lowering.gpu.thread_distribution import distribute
from rammer_mlir.lowering.gpu.threads import Threads
from rammer_mlir.lowering.gpu.transposition import emit_transposition
from rammer_mlir.lowering.gpu.transposition_plan import ROW, SIDE, TranspositionPlan
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.ir.structured import Buffer

_WRITERS = frozenset(("memref.store", "memref.atomic_rmw", "memref.generic_atomic_rmw"))


@dataclass(frozen=True)
class Staging:
    """The plans of an rKernel's operations, and their memory for staged operands.

    The plan of an operation determines how a block computes it in shared memory and registers.
    Contractions, column reductions and transpositions may have plans; the elements of all other
    operations are distributed over the threads of the block.

    Attributes:
        plans: the plans; an attribute of each planned operation is the index of its plan.
        offset: bytes in the block's shared memory at which staging memory begins.
        copies: emits the copies of operands to shared memory.
    """

    plans: tuple[Plan, ...]
    offset: int
    copies: Copies

    @property
    def end(self) -> int:
        """The byte offset in shared memory at which the staging memory ends."""
        return self.offset + max([0, *(plan.shared_bytes for plan in self.plans)])


def map_to_threads(
    kernel: ir.Operation, shared: Buffer, block_threads: int, staging: Staging
) -> None:
    """Distribute the operations of an rKernel over the threads of a block, in place.

    No block barrier follows the rKernel's last operation: the rKernel's caller synchronizes
    threads.

    Args:
        kernel: the rKernel, a ``func.func`` of ``linalg.generic`` operations on memrefs.
        shared: the block's shared memory, an argument of the rKernel.
        block_threads: threads of the block.
        staging: the plans of the rKernel's operations, and their shared memory.
    """
    block = kernel.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        threads = Threads(gpu.thread_id(gpu.Dimension.x), block_threads)
    _Mapper(threads, StagingMemory(shared, staging.offset), staging).map_block(block)
    erase_unused_allocations(kernel)
    _drop_last_barrier(block)


@dataclass(frozen=True)
class _Mapper:
    threads: Threads
    memory: StagingMemory
    staging: Staging

    def map_block(self, block: ir.Block) -> None:
        operations = [op.operation for op in block.operations]
        chains = {chain[-1]: chain for chain in marked_chains(operations)}
        for operation in operations:
            if operation.name == "linalg.generic":
                # An erased operation must not stay a key: another one may get its address.
                chain = chains.pop(operation, None)
                if chain is not None:
                    self._chain(chain)
            elif operation.name in _WRITERS:
                _by_one_thread(operation, self.threads)
            elif operation.name == "memref.load":
                _barrier_after(operation)
            elif len(operation.regions):
                self._regions(operation)

    def _chain(self, chain: Sequence[ir.Operation]) -> None:
        with ir.InsertionPoint(chain[-1]), chain[-1].location:
            self._emit(Results(ResultChain.of(chain)))
            gpu.barrier()
        for operation in chain:
            operation.erase()

    def _emit(self, results: Results) -> None:
        generic = results.reduction
        operation = generic.op.operation
        if PLAN not in operation.attributes:
            distribute(results, self.threads)
            return
        plan = self.staging.plans[ir.IntegerAttr(operation.attributes[PLAN]).value]
        if isinstance(plan, ColumnPlan):
            element = ir.MemRefType(generic.outputs[0].type).element_type
            partial = self.memory.view(0, plan.num_partial, element)
            emit_columns(results, plan, self.threads, partial)
        elif isinstance(plan, TranspositionPlan):
            kinds = [generic.arguments[operand.number].type for operand in plan.operands]
            squares = [
                self.memory.view(operand.offset, SIDE * ROW, kind)
                for operand, kind in zip(plan.operands, kinds, strict=True)
            ]
            emit_transposition(generic, plan, self.threads, squares)
        else:
            emit_contraction(results, plan, self.threads, self.memory, self.staging.copies)

    def _regions(self, operation: ir.Operation) -> None:
        names = {nested.name for nested in walk(operation)}
        if not len(operation.results) and "linalg.generic" not in names and names & _WRITERS:
            _by_one_thread(operation, self.threads)
            return
        for region in operation.regions:
            for block in region.blocks:
                self.map_block(block)


def _by_one_thread(operation: ir.Operation, threads: Threads) -> None:
    """Guard an operation without results to let only thread 0 of the block execute it."""
    with ir.InsertionPoint(operation), operation.location:
        zero = arith.constant(ir.IndexType.get(), 0)
        is_first = arith.cmpi(arith.CmpIPredicate.eq, threads.number, zero)
        guard = scf.IfOp(is_first)
        with ir.InsertionPoint(guard.then_block):
            end = scf.YieldOp([])
        gpu.barrier()
    operation.move_before(end.operation)


def _barrier_after(operation: ir.Operation) -> None:
    """Emit a block barrier after ``operation``, a ``memref.load`` outside of linalg operations.

    All threads thus complete the load before a later operation overwrites the element.
    """
    with ir.InsertionPoint.after(operation), operation.location:
        gpu.barrier()


def _drop_last_barrier(block: ir.Block) -> None:
    operations = list(block.operations)
    if len(operations) > 1 and operations[-2].operation.name == "gpu.barrier":
        operations[-2].operation.erase()
