"""Extracts, from a module at the `program` stage, the data that prove its schedule correct."""

from __future__ import annotations

from rammer_mlir.lowering.program.records import SlotResolver
from rammer_mlir.passes.program.program_ir import ScheduledModule
from rammer_mlir.programs.proof import BoxAccess, KernelAccesses, Proof, ValuePlace
from rammer_mlir.programs.records import Program
from rammer_mlir.scheduling.graph import Access, RKernel, TaskGraph


def proof_of(scheduled: ScheduledModule, program: Program, resolver: SlotResolver) -> Proof:
    """Return the data with which the verifier proves an artifact's schedule correct.

    The data are each tensor's location in memory, and the boxes that each rTask accesses.
    ``resolver`` finds the location of a tensor.
    """
    builder = scheduled.builder
    graph = TaskGraph(tuple(builder.buffers), tuple(builder.operators))
    users = {operator.kernel: n for n, operator in enumerate(program.operators)}
    return Proof(
        values=tuple(
            ValuePlace(buffer.name, buffer.kind, resolver.place(root), buffer.num_bytes)
            for buffer, root in zip(graph.buffers, builder.roots, strict=True)
        ),
        kernels=tuple(
            _kernel(graph, users[number], resolver.kernel_offsets(symbol.name))
            for number, symbol in enumerate(program.kernels)
        ),
        operands=tuple(
            tuple(view.buffer for view in operator.operands) for operator in graph.operators
        ),
    )


def _kernel(graph: TaskGraph, user: int, inside: list[int]) -> KernelAccesses:
    """Return the boxes that rTasks of an rKernel access, with offsets in bytes instead of elements.

    Args:
        graph: the rOperators, with their buffers and rKernels.
        user: index of an rOperator that uses the rKernel; its operands give the element sizes.
        inside: for each buffer argument, the constant byte offset that the rKernel adds to the
            pointer.
    """
    operator = graph.operators[user]
    kernel: RKernel = operator.kernels[0]
    widths = [graph.buffers[view.buffer].element_bytes for view in operator.operands]

    def boxes(accesses: tuple[Access, ...]) -> tuple[BoxAccess, ...]:
        return tuple(_box(a, widths[a.argument], inside[a.argument]) for a in accesses)

    return KernelAccesses(
        kernel.num_rtasks, boxes(kernel.reads), boxes(kernel.writes), boxes(kernel.updates),
        kernel.is_exclusive,
    )  # fmt: skip


def _box(access: Access, width: int, inside: int) -> BoxAccess:
    boxes = access.boxes
    return BoxAccess(
        argument=access.argument,
        element_bytes=width,
        offsets=boxes.offsets * width + inside,
        sizes=boxes.sizes,
        strides=tuple(stride * width for stride in boxes.strides),
    )
