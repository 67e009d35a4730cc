"""Inserts calls of the runtime's checks before memory accesses.

Indices are checked on memrefs, which have the sizes of dimensions. Bounds of buffers, unwritten
memory and races are checked in the LLVM dialect, where every access is a load, a store or an atomic
operation.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, func, ir, memref
from rammer_mlir.emulation.codegen.accesses import (
    address_word,
    call_runtime,
    is_atomic,
    kernel_operations,
    number_word,
    root_of,
)
from rammer_mlir.emulation.codegen.gpu_to_func import element_bytes
from rammer_mlir.emulation.codegen.i64_language import constant_word, i64
from rammer_mlir.emulation.codegen.sites import Sites
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.ir_walk import producer, walk

_MEMREFS = {"memref.load": 0, "memref.store": 1, "vector.load": 0, "vector.store": 1}
"""Index of a checked operation's memref operand, by operation name; the indices follow it."""

_COPIES = ("llvm.intr.memcpy", "llvm.intr.memmove")
_UNKNOWN = (
    "llvm.intr.masked.load", "llvm.intr.masked.store", "llvm.intr.masked.gather",
    "llvm.intr.masked.scatter", "llvm.inline_asm",
)  # fmt: skip
_NARROW_SCOPES = ("workgroup", "block", "wavefront", "singlethread")
"""Synchronization scopes that order no accesses of different blocks."""


def check_indices(module: ir.Module, sites: Sites) -> None:
    """Insert checks that the indices of memref loads and stores are less than the memref's sizes.

    ``sites`` assigns site indices to the loads and stores, for fault messages.
    """
    for operation in walk(module.operation):
        number = _MEMREFS.get(operation.name)
        if number is not None:
            site = sites.add(operation)
            with ir.InsertionPoint(operation), operation.location:
                _check_access(operation, number, site)


def _check_access(operation: ir.Operation, number: int, site: int) -> None:
    buffer, indices = operation.operands[number], list(operation.operands)[number + 1 :]
    value = operation.results[0] if len(operation.results) else operation.operands[0]
    vector = list(value.type.shape) if isinstance(value.type, ir.VectorType) else []
    extra = [0] * (len(indices) - len(vector)) + [size - 1 for size in vector]
    for dimension, (index, more) in enumerate(zip(indices, extra, strict=True)):
        size = _size(buffer, dimension)
        if isinstance(size, int):
            limit = constant_word(max(size - more, 0))
        else:
            limit = arith.subi(size, constant_word(more))
        word = arith.index_cast(i64(), index)
        func.CallOp(
            [], "emulator_index", [word, limit, constant_word(site), constant_word(dimension)]
        )


def _size(buffer: ir.Value, dimension: int) -> ir.Value | int:
    size = ir.MemRefType(buffer.type).shape[dimension]
    if size != ir.ShapedType.get_dynamic_size():
        return size
    place = arith.constant(ir.IndexType.get(), dimension)
    return arith.index_cast(i64(), memref.dim(buffer, place))


def granule_of(module: ir.Module) -> int:
    """Return the count of bytes per shadow cell: the size of the smallest accessed element.

    A shadow cell describes the last accesses to its bytes, for the race checks. The result is at
    most 4; it is 1 if the module contains a ``memcpy`` or ``memmove``.
    """
    sizes = [4]
    for operation in kernel_operations(module):
        if operation.name == "llvm.load":
            sizes.append(_element_bytes(operation.results[0].type))
        elif operation.name == "llvm.store":
            sizes.append(_element_bytes(operation.operands[0].type))
        elif operation.name in _COPIES:
            sizes.append(1)
    return min(sizes)


def _element_bytes(kind: ir.Type) -> int:
    return element_bytes(kind.element_type if isinstance(kind, ir.VectorType) else kind)


def instrument(module: ir.Module, sites: Sites, *, checked: bool) -> None:
    """Insert calls of the runtime: checks at memory accesses, and yields at atomic operations.

    A yield lets the scheduler run other lanes. Without ``checked``, insert the yields only.
    ``sites`` assigns site indices to the accesses, for fault messages.
    """
    for operation in kernel_operations(module):
        with ir.InsertionPoint(operation), operation.location:
            if is_atomic(operation):
                _atomic(operation, sites, checked)
            elif checked:
                _plain(operation, sites)


# LLVM's numbers of memory orders: monotonic 2, acquire 4, release 5, acq_rel 6, seq_cst 7.
_ACQUIRING, _RELEASING = (4, 6, 7), (5, 6, 7)


def _orders(operation: ir.Operation) -> tuple[bool, bool]:
    """Return two bools: whether an atomic operation is an acquire, and whether it is a release.

    Both are False if the operation's scope is a single block or less.
    """
    scope = str(operation.attributes["syncscope"]) if "syncscope" in operation.attributes else ""
    if any(narrow in scope for narrow in _NARROW_SCOPES):
        return False, False
    name = "success_ordering" if operation.name == "llvm.cmpxchg" else "ordering"
    key = name if name in operation.attributes else "bin_ordering"
    order = ir.IntegerAttr(operation.attributes[key]).value
    return order in _ACQUIRING, order in _RELEASING


def _atomic(operation: ir.Operation, sites: Sites, checked: bool) -> None:
    is_store = operation.name == "llvm.store"
    target = operation.operands[1 if is_store else 0]
    site, address = number_word(sites.add(operation)), address_word(target)
    acquires, releases = _orders(operation)
    if checked:
        value = operation.operands[0] if is_store else operation.results[0]
        size = element_bytes(operation.operands[1].type if len(operation.operands) > 1
                             and not is_store else value.type)  # fmt: skip
        call_runtime(
            "emulator_bounds", address_word(root_of(target)), address, number_word(size), site
        )
    if not is_store:
        call_runtime("emulator_poll", address, site)
    if operation.name != "llvm.load":
        call_runtime("emulator_progress")
        if checked:
            joins = number_word(int(not is_store))
            call_runtime("emulator_release", address, site, joins, number_word(int(releases)))
    with ir.InsertionPoint.after(operation):
        if checked and not is_store:
            call_runtime("emulator_acquire", address, site, number_word(int(acquires)))
        if operation.name != "llvm.load":
            call_runtime("emulator_offer", address, site)


def _plain(operation: ir.Operation, sites: Sites) -> None:
    name = operation.name
    if name in ("llvm.load", "llvm.store"):
        _check_alignment(operation, sites)
    if name == "llvm.load":
        size = element_bytes(operation.results[0].type)
        _access(operation.operands[0], number_word(size), sites.add(operation), 0)
    elif name == "llvm.store":
        size = element_bytes(operation.operands[0].type)
        _access(operation.operands[1], number_word(size), sites.add(operation), 1)
    elif name in _COPIES:
        site = sites.add(operation)
        _access(operation.operands[1], operation.operands[2], site, 0)
        _access(operation.operands[0], operation.operands[2], site, 1)
    elif name == "llvm.fence":
        acquires, releases = _orders(operation)
        call_runtime("emulator_fence", number_word(int(acquires)), number_word(int(releases)))
    elif name in _UNKNOWN:
        raise UnsupportedError(
            f"emulation with checks: expected plain loads and stores, found '{name}'; run without "
            "checks"
        )


def _check_alignment(operation: ir.Operation, sites: Sites) -> None:
    """Insert a check that a vector load or store has the alignment that its attribute states.

    Nothing is inserted for scalars, and without the attribute. ``sites`` assigns the site index.
    """
    is_load = operation.name == "llvm.load"
    kind = operation.results[0].type if is_load else operation.operands[0].type
    if isinstance(kind, ir.VectorType) and "alignment" in operation.attributes:
        alignment = number_word(ir.IntegerAttr(operation.attributes["alignment"]).value)
        address = address_word(operation.operands[0 if is_load else 1])
        call_runtime("emulator_aligned", address, alignment, number_word(sites.add(operation)))


def _access(pointer: ir.Value, size: ir.Value, site: int, writes: int) -> None:
    root = root_of(pointer)
    if producer(root) == "llvm.alloca":
        return
    words = (address_word(root), address_word(pointer), size)
    call_runtime("emulator_access", *words, number_word(site), number_word(writes))
