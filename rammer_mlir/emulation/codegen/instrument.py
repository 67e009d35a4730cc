"""Inserts calls of the runtime's checks before memory accesses in the LLVM dialect.

There, every access is a load, a store or an atomic operation. Bounds of buffers, alignment,
unwritten memory and races are checked; ``indices`` checks the indices of memrefs.
"""

from __future__ import annotations

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.emulation.codegen.accesses import (
    ATOMICS,
    address_word,
    call_runtime,
    is_atomic,
    kernel_operations,
    number_word,
    root_of,
)
from rammer_mlir.emulation.codegen.gpu_to_func import element_bytes
from rammer_mlir.emulation.codegen.sites import Sites
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.ir_walk import producer

_POINTERS = {"llvm.load": 0, "llvm.store": 1} | dict.fromkeys(ATOMICS, 0)
"""Index of the pointer operand of a load, store or atomic operation, by operation name."""

_COPIES = ("llvm.intr.memcpy", "llvm.intr.memmove")
_UNKNOWN = (
    "llvm.intr.masked.load", "llvm.intr.masked.store", "llvm.intr.masked.gather",
    "llvm.intr.masked.scatter", "llvm.inline_asm",
)  # fmt: skip
_NARROW_SCOPES = ("workgroup", "block", "wavefront", "singlethread")
"""Synchronization scopes that order no accesses of different blocks."""


def granule_of(module: ir.Module) -> int:
    """Return the count of bytes per shadow cell: the size of the smallest accessed element.

    A shadow cell describes the last accesses to its bytes, for the race checks. The result is at
    most 4; it is 1 if the module contains a ``memcpy`` or ``memmove``.
    """
    sizes = [4]
    for operation in kernel_operations(module):
        if operation.name in _COPIES:
            sizes.append(1)
        elif operation.name in _POINTERS:
            kind = _accessed_type(operation)
            sizes.append(
                element_bytes(kind.element_type if isinstance(kind, ir.VectorType) else kind)
            )
    return min(sizes)


def _accessed_type(operation: ir.Operation) -> ir.Type:
    """Return the type of the value that a load, store or atomic operation reads or writes."""
    if operation.name == "llvm.load":
        return operation.results[0].type
    return operation.operands[1 if operation.name in ATOMICS else 0].type


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
    target = operation.operands[_POINTERS[operation.name]]
    site, address = number_word(sites.add(operation)), address_word(target)
    acquires, releases = _orders(operation)
    if checked:
        _check_atomic(operation, target, sites.add(operation))
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


def _check_atomic(operation: ir.Operation, pointer: ir.Value, site: int) -> None:
    _check_alignment(pointer, _alignment(operation), site)
    size = element_bytes(_accessed_type(operation))
    reads, writes = not _ignores_old_value(operation), operation.name != "llvm.load"
    numbers = [number_word(int(number)) for number in (size, site, reads, writes)]
    call_runtime("emulator_atomic", address_word(root_of(pointer)), address_word(pointer), *numbers)


def _ignores_old_value(operation: ir.Operation) -> bool:
    """Whether the kernel never uses the value that memory had before an atomic operation."""
    if operation.name == "llvm.store":
        return True
    is_exchange = operation.name == "llvm.atomicrmw" and (
        ir.IntegerAttr(operation.attributes["bin_op"]).value == llvm.AtomicBinOp.xchg
    )
    return is_exchange and not list(operation.results[0].uses)


def _plain(operation: ir.Operation, sites: Sites) -> None:
    name = operation.name
    if name in _POINTERS:
        _load_or_store(operation, sites.add(operation))
    elif name in _COPIES:
        to, source, size = list(operation.operands)[:3]
        site = sites.add(operation)
        for pointer, writes in ((source, 0), (to, 1)):
            if not _is_private(pointer):
                _access(pointer, size, site, writes, 1)
    elif name == "llvm.fence":
        acquires, releases = _orders(operation)
        call_runtime("emulator_fence", number_word(int(acquires)), number_word(int(releases)))
    elif name in _UNKNOWN:
        raise UnsupportedError(
            f"emulation with checks: expected plain loads and stores, found '{name}'; run without "
            "checks"
        )


def _load_or_store(operation: ir.Operation, site: int) -> None:
    pointer, kind = operation.operands[_POINTERS[operation.name]], _accessed_type(operation)
    alignment = _alignment(operation)
    if not _is_private(pointer):
        size = number_word(element_bytes(kind))
        _access(pointer, size, site, int(operation.name == "llvm.store"), alignment)
    elif isinstance(kind, ir.VectorType) and alignment > 1:
        # Scalars are aligned; to take their address would keep them out of registers.
        _check_alignment(pointer, alignment, site)


def _alignment(operation: ir.Operation) -> int:
    """Return the alignment in bytes that the hardware requires of a load, store or atomic.

    Without an attribute, it is the size of a scalar, and 1 for other types.
    """
    if "alignment" in operation.attributes:
        return ir.IntegerAttr(operation.attributes["alignment"]).value
    kind = _accessed_type(operation)
    return element_bytes(kind) if isinstance(kind, ir.IntegerType | ir.FloatType) else 1


def _check_alignment(pointer: ir.Value, alignment: int, site: int) -> None:
    call_runtime(
        "emulator_aligned", address_word(pointer), number_word(alignment), number_word(site)
    )


def _is_private(pointer: ir.Value) -> bool:
    return producer(root_of(pointer)) == "llvm.alloca"


def _access(pointer: ir.Value, size: ir.Value, site: int, writes: int, alignment: int) -> None:
    numbers = [number_word(number) for number in (site, writes, alignment)]
    call_runtime(
        "emulator_access", address_word(root_of(pointer)), address_word(pointer), size, *numbers
    )
