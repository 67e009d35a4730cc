"""Prepares rKernels' memory accesses for native code, before vectorization.

Temporaries move to the stack, booleans become bytes, and copies become ``linalg.generic``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rammer_mlir.bindings import arith, ir, linalg, memref
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.kernels.affine import Index, multiply, upper_bound
from rammer_mlir.passes.ir.generics import indexing_maps, iterator_types
from rammer_mlir.passes.ir.structured import (
    Buffer,
    Structured,
    as_buffer,
    element_bytes,
    is_buffer,
)

STACK_LIMIT = 4 << 20
"""Largest size of a kernel's temporaries in bytes: threads have stacks of 8 MiB."""

ALLOCATIONS = ("memref.alloc", "memref.alloca")

VIEWS = frozenset(
    ("memref.subview", "memref.reinterpret_cast", "memref.cast", "memref.expand_shape",
     "memref.collapse_shape", "memref.transpose", "memref.extract_strided_metadata", "memref.view")
)  # fmt: skip
"""Names of operations whose first operand is a memref, of which their first result is a view."""

_WITHOUT_ACCESS = frozenset(
    (*ALLOCATIONS, *VIEWS, "memref.dim", "affine.apply", "affine.min", "affine.max",
     "affine.delinearize_index", "affine.linearize_index")
)  # fmt: skip

_ALIGNMENT = 64  # bytes: a cache line, and an AVX-512 register


def is_without_access(operation: ir.Operation) -> bool:
    """Return whether an operation accesses no element of memory.

    This is true for index arithmetic, allocations, and the views and sizes of memrefs.
    """
    return operation.name.startswith("arith.") or operation.name in _WITHOUT_ACCESS


def root(value: ir.Value) -> ir.Value:
    """Return the buffer that a value is a view of, directly or through other views.

    If the value is not a view, return the value.
    """
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in VIEWS:
        value = value.owner.operation.operands[0]
    return value


def expand_copies(kernel: ir.Operation) -> None:
    """Replace each ``memref.copy`` by a ``linalg.generic``, which needs no runtime library call."""
    for operation in walk(kernel):
        if operation.name == "memref.copy":
            source, target = map(as_buffer, operation.operands)
            with ir.InsertionPoint(operation), operation.location:
                _copy_generic(source, target)
            operation.erase()


def _copy_generic(source: Buffer, target: Buffer) -> None:
    rank = target.type.rank
    identity = ir.AffineMap.get_identity(rank)
    maps, loops = indexing_maps([identity, identity]), iterator_types([True] * rank)
    copy = linalg.GenericOp([], [source], [target], maps, loops)
    block = copy.regions[0].blocks.append(source.type.element_type, target.type.element_type)
    with ir.InsertionPoint(block):
        linalg.YieldOp([block.arguments[0]])


def allocate_on_stack(kernel: ir.Operation) -> None:
    """Replace each ``memref.alloc`` and ``memref.alloca`` by stack memory of a static size.

    The size is the upper bound of the allocation's size.

    Raises:
        UnsupportedError: if a temporary has no static bound, or if the temporaries of the rKernel
            are together larger than ``STACK_LIMIT`` bytes.
    """
    total = 0
    block = kernel.regions[0].blocks[0]
    for operation in walk(kernel):
        if operation.name == "memref.dealloc":
            operation.erase()
        elif operation.name in ALLOCATIONS:
            elements = _bounded_elements(kernel, operation)
            total += elements * element_bytes(operation.result.type)
            if total > STACK_LIMIT:
                raise UnsupportedError(
                    f"rKernel {kernel.attributes['sym_name']}: expected at most {STACK_LIMIT} "
                    f"bytes of temporaries, found {total}; use smaller tiles"
                )
            # The first operation may have been replaced, so its insertion point may be invalid.
            entry = ir.InsertionPoint.at_block_begin(block)
            _replace_allocation(operation, elements, entry)


def _bounded_elements(kernel: ir.Operation, allocation: ir.Operation) -> int:
    """Return the largest number of elements that an allocation can have.

    Raises ``UnsupportedError`` if a size has no static bound.
    """
    bounds = [upper_bound(size) for size in allocation.operands]
    if None in bounds:
        raise UnsupportedError(
            f"rKernel {kernel.attributes['sym_name']}: expected temporaries bounded by a constant, "
            f"found {allocation.result.type}; bound its sizes by affine.min"
        )
    dynamic = ir.ShapedType.get_dynamic_size()
    elements, rest = 1, iter(bounds)
    for size in ir.MemRefType(allocation.result.type).shape:
        elements *= (next(rest) or 0) if size == dynamic else size
    return elements


def _replace_allocation(allocation: ir.Operation, elements: int, entry: ir.InsertionPoint) -> None:
    kind = ir.MemRefType(allocation.result.type)
    alignment = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _ALIGNMENT)
    flat = ir.MemRefType.get([elements], kind.element_type)
    with entry, allocation.location:
        frame = memref.AllocaOp(kind if kind.has_static_shape else flat, [], [],
                                alignment=alignment)  # fmt: skip
    if kind.has_static_shape:
        allocation.result.replace_all_uses_with(frame.result)
    else:
        with ir.InsertionPoint(allocation), allocation.location:
            view = contiguous_view(frame.result, kind, list(allocation.operands))
        allocation.result.replace_all_uses_with(view)
    allocation.erase()


def contiguous_view(
    flat: ir.Value, kind: ir.MemRefType, dynamic_sizes: Iterable[ir.Value]
) -> Buffer:
    """Emit a contiguous view of type ``kind`` of the rank-1 buffer ``flat``.

    ``dynamic_sizes`` are the sizes of the view's dynamic dimensions.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    rest = iter(dynamic_sizes)
    sizes: list[Index] = [next(rest) if size == dynamic else size for size in kind.shape]
    strides: list[Index] = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, multiply(strides[0], size))
    return memref.ReinterpretCastOp(
        kind, flat, [],
        [s for s in sizes if not isinstance(s, int)],
        [s for s in strides if not isinstance(s, int)],
        [0],
        [s if isinstance(s, int) else dynamic for s in sizes],
        [s if isinstance(s, int) else dynamic for s in strides],
    ).result  # fmt: skip


def store_booleans_as_bytes(kernel: ir.Operation) -> None:
    """Change the element type of an rKernel's boolean memrefs from i1 to i8.

    Without this change, LLVM would store a vector of i1 as packed bits, but a scalar i1 as a byte.
    Loaded bytes are compared with zero; booleans to store are extended to 0 or 1.
    """
    block = kernel.regions[0].blocks[0]
    for argument in block.arguments:
        _retype(argument)
    inputs = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
    for operation in walk(kernel):
        for result in operation.results:
            _retype(result)
        if operation.name == "linalg.generic":
            _generic_booleans(Structured(operation.opview))
        elif operation.name == "memref.load" and _is_boolean(operation.result.type):
            operation.result.set_type(_byte())
            _from_byte(operation.result, ir.InsertionPoint.after(operation))
        elif operation.name == "memref.store" and _is_boolean(operation.operands[0].type):
            with ir.InsertionPoint(operation), operation.location:
                operation.operands[0] = arith.extui(_byte(), operation.operands[0])


def store_boolean_constants_as_bytes(module: ir.Module, kernels: Iterable[ir.Operation]) -> None:
    """Change the element type of the boolean constants that rKernels read, from i1 to i8.

    A constant is a ``memref.global`` of the module. ``kernels`` are the rKernels of the module;
    constants that no rKernel reads stay i1.
    """
    read = {
        ir.FlatSymbolRefAttr(operation.attributes["name"]).value
        for kernel in kernels
        for operation in walk(kernel)
        if operation.name == "memref.get_global"
    }
    for operation in module.body.operations:
        if operation.operation.name != "memref.global":
            continue
        kind = ir.MemRefType(ir.TypeAttr(operation.attributes["type"]).value)
        name = ir.StringAttr(operation.attributes["sym_name"]).value
        if name in read and _is_boolean(kind.element_type):
            _global_of_bytes(operation, kind)


def _global_of_bytes(operation: ir.OpView, kind: ir.MemRefType) -> None:
    given = ir.DenseIntElementsAttr(operation.attributes["initial_value"])
    tensor = ir.RankedTensorType.get(kind.shape, _byte())
    values = np.array([bool(value) for value in given], np.uint8).reshape(kind.shape)
    operation.attributes["initial_value"] = ir.DenseElementsAttr.get(values, type=tensor)
    bytes_of = ir.MemRefType.get(kind.shape, _byte(), kind.layout, kind.memory_space)
    operation.attributes["type"] = ir.TypeAttr.get(bytes_of)


def _generic_booleans(generic: Structured) -> None:
    block = generic.block
    for operand, argument in zip(generic.operands, generic.arguments, strict=True):
        if is_buffer(operand) and _is_boolean(argument.type):
            argument.set_type(_byte())
            _from_byte(argument, ir.InsertionPoint.at_block_begin(block))
    terminator = block.operations[len(block.operations) - 1].operation
    for number, value in enumerate(terminator.operands):
        if _is_boolean(value.type):
            with ir.InsertionPoint(terminator), terminator.location:
                terminator.operands[number] = arith.extui(_byte(), value)


def _from_byte(value: ir.Value, point: ir.InsertionPoint) -> None:
    """Emit at ``point`` the i1 ``value != 0``, and let all other users of ``value`` use this i1.

    ``value`` is an i8: a boolean that is stored as a byte.
    """
    with point, value.location:
        zero = arith.constant(_byte(), 0)
        truth = arith.cmpi(arith.CmpIPredicate.ne, value, zero)
    value.replace_all_uses_except(truth, [truth.owner.operation])


def _byte() -> ir.IntegerType:
    return ir.IntegerType.get_signless(8)


def _is_boolean(kind: ir.Type) -> bool:
    return isinstance(kind, ir.IntegerType) and kind.width == 1


def _retype(value: ir.Value) -> None:
    kind = value.type
    if isinstance(kind, ir.MemRefType) and _is_boolean(kind.element_type):
        value.set_type(ir.MemRefType.get(kind.shape, _byte(), kind.layout, kind.memory_space))
