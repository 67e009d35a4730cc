"""Emits the ``rtask.kernel`` of a launched kernel: accesses, resources and costs of its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.from_gpu.index_range import Range, exactly
from rammer_mlir.lowering.from_gpu.index_ranges import LOOPS, IndexRanges
from rammer_mlir.lowering.from_gpu.kernel_accesses import KernelAccesses, find_accesses
from rammer_mlir.lowering.from_gpu.launches import Launch
from rammer_mlir.passes.ir.boxes import Box
from rammer_mlir.passes.ir.structured import element_bytes

_DEAR = 16
"""Cost of a call of a math function, in arithmetic operations."""


def describe_kernel(launch: Launch, name: str, ip: ir.InsertionPoint) -> frozenset[int]:
    """Emit a launch's ``rtask.kernel``; return the positions of the memrefs that a block may write.

    A position is an index into the memref arguments of the launch. ``name`` is the symbol of the
    rKernel, and ``ip`` the insertion point of the operation. If a block writes no memref, the
    launch has no effect: the result is empty and no operation is emitted.
    """
    arguments = list(launch.kernel.regions[0].blocks[0].arguments)
    known: dict[ir.Value, Range] = {
        arguments[number]: exactly(attribute.value)
        for number, attribute in launch.scalars.items()
        if isinstance(attribute, ir.IntegerAttr)
    }
    ranges = IndexRanges(launch.grid, launch.block, known)
    buffers = {arguments[number]: place for place, number in enumerate(launch.memrefs)}
    accesses = find_accesses(launch.kernel, buffers, ranges, launch.grid)
    if not accesses.updates:
        return frozenset()
    operations, barriers = _work(launch.kernel, ranges)
    kinds = [ir.MemRefType(value.type) for value in launch.memrefs.values()]
    ir.Operation.create(
        "rtask.kernel",
        attributes={
            "function": ir.FlatSymbolRefAttr.get(name),
            "num_rtasks": _integer(launch.num_blocks),
            "threads": _integer(launch.num_threads),
            "shared_memory": _integer(_shared_bytes(launch)),
            "barriers": _integer(barriers),
            "operations": _integer(operations * launch.num_threads),
            "bytes": _integer(_bytes(accesses, kinds)),
            "reads": _accesses(accesses.reads),
            "writes": ir.ArrayAttr.get([]),
            "updates": _accesses(accesses.updates),
        },
        loc=launch.kernel.location,
        ip=ip,
    )
    return frozenset(argument for argument, _ in accesses.updates)


def _integer(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _accesses(boxes: Iterable[tuple[int, Box]]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([_access(argument, box) for argument, box in boxes])


def _access(argument: int, box: Box) -> ir.DictAttr:
    entry: Mapping[str, ir.Attribute] = {
        "argument": _integer(argument),
        "offsets": ir.AffineMapAttr.get(ir.AffineMap.get(1, 0, list(box.offsets))),
        "sizes": ir.DenseI64ArrayAttr.get(list(box.sizes)),
    }
    return ir.DictAttr.get(dict(entry))


def _shared_bytes(launch: Launch) -> int:
    attributes = launch.kernel.attributes
    if "workgroup_attributions" not in attributes:
        return 0
    first = len(launch.scalars) + len(launch.memrefs)
    count = ir.IntegerAttr(attributes["workgroup_attributions"]).value
    arguments = list(launch.kernel.regions[0].blocks[0].arguments)[first : first + count]
    kinds = [ir.MemRefType(argument.type) for argument in arguments]
    return sum(prod(kind.shape) * element_bytes(kind) for kind in kinds)


def _bytes(accesses: KernelAccesses, kinds: Sequence[ir.MemRefType]) -> int:
    return sum(
        min(prod(box.sizes), prod(kinds[argument].shape)) * element_bytes(kinds[argument])
        for argument, box in (*accesses.reads, *accesses.updates)
    )


def _work(holder: ir.Operation, ranges: IndexRanges) -> tuple[int, int]:
    """Return how many arithmetic operations and how many block barriers a thread executes.

    Operations in the regions of ``holder``, at any depth, are counted. The operations of a loop's
    body count once per iteration; ``ranges`` gives the trip count. An operation of the ``math``
    dialect counts as several arithmetic operations.
    """
    operations = barriers = 0
    for region in holder.regions:
        for block in region.blocks:
            for operation in (o.operation for o in block.operations):
                times = ranges.trips(operation) if operation.name in LOOPS else 1
                inner = _work(operation, ranges)
                own = _cost(operation.name)
                operations += own + times * inner[0]
                barriers += (operation.name == "gpu.barrier") + times * inner[1]
    return operations, barriers


def _cost(name: str) -> int:
    if name.startswith("math."):
        return _DEAR
    return int(name.startswith("arith.") and name.endswith("f"))
