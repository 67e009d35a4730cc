"""Places an rKernel's temporaries in block-shared memory, or else in the vEU's scratch memory.

Scratch memory is a part of device memory that belongs to one vEU. All threads of a block work on
the same tile, so the block shares the tile's temporaries. Each temporary gets a static offset.
Shared and scratch memory are two buffers that are arguments of the rKernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir, memref
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.gpu.alignment import ALIGNMENT as ALIGNED
from rammer_mlir.lowering.gpu.result_chains import IN_REGISTERS
from rammer_mlir.lowering.ir_walk import constant_integer, walk
from rammer_mlir.lowering.kernels.affine import upper_bound
from rammer_mlir.lowering.kernels.buffers import ALLOCATIONS, VIEWS, contiguous_view
from rammer_mlir.passes.ir.structured import Buffer, as_buffer, element_bytes

ALIGNMENT = 16
"""Alignment of temporaries in bytes: the size of a thread's widest access."""

WORKGROUP = "#gpu.address_space<workgroup>"

PRIVATE = "#gpu.address_space<private>"
"""Memory space of a thread's private memory, where no temporaries of the block are."""


@dataclass(frozen=True)
class Placement:
    """The place of a temporary in memory.

    Attributes:
        allocation: the operation that allocates the temporary.
        elements: an upper bound on the count of the temporary's elements.
        shared: whether the temporary is in shared memory; otherwise it is in scratch memory.
        offset: byte offset of the temporary in that memory.
    """

    allocation: ir.Operation
    elements: int
    shared: bool
    offset: int


@dataclass(frozen=True)
class TemporaryMemory:
    """The places of an rKernel's temporaries, and their bytes in shared memory and in scratch."""

    placements: tuple[Placement, ...]
    shared_bytes: int
    scratch_bytes: int


def place_temporaries(kernel: ir.Operation, shared_limit: int) -> TemporaryMemory:
    """Return a place for each temporary, in shared memory if it fits.

    Smaller temporaries are placed first; temporaries that do not fit go to scratch memory.

    Raises:
        UnsupportedError: if a temporary has no static bound.
    """
    sizes: list[tuple[int, int, ir.Operation]] = []
    for operation in walk(kernel):
        if operation.name in ALLOCATIONS and not is_private(operation):
            if IN_REGISTERS in operation.attributes:
                continue
            elements = _bounded_elements(kernel, operation)
            width = element_bytes(operation.result.type)
            sizes.append((_align(elements * width), elements, operation))
    shared = scratch = 0
    placements: list[Placement] = []
    for num_bytes, elements, operation in sorted(sizes, key=lambda item: item[0]):
        fits = shared + num_bytes <= shared_limit
        placements.append(Placement(operation, elements, fits, shared if fits else scratch))
        shared += num_bytes if fits else 0
        scratch += 0 if fits else num_bytes
    return TemporaryMemory(tuple(placements), shared, scratch)


def is_private(allocation: ir.Operation) -> bool:
    """Return whether an allocation is in a thread's private memory."""
    return str(_type(allocation).memory_space) == PRIVATE


def add_buffers(
    kernel: ir.Operation, memory: TemporaryMemory, shared_bytes: int, scratch_bytes: int
) -> None:
    """Append shared and scratch memory to an rKernel's arguments, and place its temporaries there.

    Args:
        kernel: an rKernel on memrefs.
        memory: the placements of its temporaries.
        shared_bytes: size of the block-shared buffer, the maximum over rKernels.
        scratch_bytes: size of the vEU's scratch buffer, the maximum over rKernels.
    """
    block = kernel.regions[0].blocks[0]
    byte = ir.IntegerType.get_signless(8)
    kinds = [
        ir.MemRefType.get([shared_bytes], byte, memory_space=ir.Attribute.parse(WORKGROUP)),
        ir.MemRefType.get([scratch_bytes], byte),
    ]
    shared, scratch = (block.add_argument(kind, ir.Location.unknown()) for kind in kinds)
    inputs = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
    nothing = ir.DictAttr.get({})
    given = [nothing] * (len(inputs) - len(kinds))
    if "arg_attrs" in kernel.attributes:
        given = list(ir.ArrayAttr(kernel.attributes["arg_attrs"]))
    bytes_known = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), ALIGNMENT)
    added = [ir.DictAttr.get({ALIGNED: bytes_known})] * len(kinds)
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get([*given, *added])
    for placement in memory.placements:
        # The first operation may have been replaced, so its insertion point may be invalid.
        entry = ir.InsertionPoint.at_block_begin(block)
        _replace(placement, as_buffer(shared if placement.shared else scratch), entry)
    for operation in walk(kernel):
        if operation.name == "memref.dealloc":
            operation.erase()


def _replace(placement: Placement, buffer: Buffer, entry: ir.InsertionPoint) -> None:
    allocation = placement.allocation
    kind = _type(allocation)
    space = buffer.type.memory_space
    shape = list(kind.shape) if kind.has_static_shape else [placement.elements]
    flat = ir.MemRefType.get(shape, kind.element_type, memory_space=space)
    with entry, allocation.location:
        offset = arith.constant(ir.IndexType.get(), placement.offset)
        frame = memref.view(flat, buffer, offset, [])
    if kind.has_static_shape:
        view = frame
    else:
        with ir.InsertionPoint(allocation), allocation.location:
            view = contiguous_view(frame, in_space(kind, space), list(allocation.operands))
    allocation.result.replace_all_uses_with(view)
    allocation.erase()
    propagate_space(view, space)


def erase_unused_allocations(kernel: ir.Operation) -> None:
    """Erase the allocations whose elements stay in registers.

    Each ``memref.dim`` of an erased allocation is replaced by the size that it reads.
    """
    for operation in list(walk(kernel)):
        if operation.name in ALLOCATIONS and IN_REGISTERS in operation.attributes:
            for dim in [use.owner.operation for use in operation.result.uses]:
                assert dim.name == "memref.dim", f"expected only sizes, found {dim.name}"
                dim.result.replace_all_uses_with(_size(operation, dim))
                dim.erase()
            operation.erase()


def _size(allocation: ir.Operation, dim: ir.Operation) -> ir.Value:
    """Return the size that ``dim``, a ``memref.dim`` of the result of ``allocation``, reads.

    The size is an operand of ``allocation`` if it is dynamic, else an emitted constant.
    """
    kind, number = _type(allocation), constant_integer(dim.operands[1])
    assert number is not None, "bounds of loops are sizes of constant dimensions"
    if kind.is_dynamic_dim(number):
        return allocation.operands[sum(kind.is_dynamic_dim(n) for n in range(number))]
    with ir.InsertionPoint(dim), dim.location:
        return arith.constant(ir.IndexType.get(), kind.shape[number])


def _type(allocation: ir.Operation) -> ir.MemRefType:
    return ir.MemRefType(allocation.result.type)


def in_space(kind: ir.MemRefType, space: ir.Attribute | None) -> ir.MemRefType:
    """Return a memref type with the memory space replaced by ``space``; None is device memory."""
    return ir.MemRefType.get(kind.shape, kind.element_type, kind.layout, space)


def propagate_space(value: ir.Value, space: ir.Attribute | None) -> None:
    """Set the memory space of all views of a buffer; None stands for device memory."""
    for use in value.uses:
        user = use.owner.operation
        if user.name not in VIEWS:
            continue
        for result in user.results:
            kind = result.type
            # The bindings do not compare None with an attribute.
            if isinstance(kind, ir.MemRefType) and str(kind.memory_space) != str(space):
                result.set_type(in_space(kind, space))
                propagate_space(result, space)


def _bounded_elements(kernel: ir.Operation, allocation: ir.Operation) -> int:
    """Return an upper bound on the count of an allocation's elements.

    Raises:
        UnsupportedError: if the allocation has no static bound.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    elements, rest = 1, iter(allocation.operands)
    for size in _type(allocation).shape:
        bound = upper_bound(next(rest)) if size == dynamic else size
        if bound is None:
            raise UnsupportedError(
                f"rKernel {kernel.attributes['sym_name']}: expected temporaries bounded by a "
                f"constant, found {allocation.result.type}; bound their sizes by affine.min"
            )
        elements *= bound
    return elements


def _align(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT
