"""Checks that a GPU kernel has known memory effects and uses threads in a supported way."""

from __future__ import annotations

from collections.abc import Set

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.from_gpu.launches import Launch
from rammer_mlir.lowering.from_gpu.memory_operations import (
    EXCHANGES,
    MEMORY_OPERATIONS,
    SUBGROUP_OPERATIONS,
    VIEWS,
    is_known,
    is_memref,
)
from rammer_mlir.lowering.ir_walk import walk

_ON_MEMREFS = frozenset((*MEMORY_OPERATIONS, *VIEWS, "memref.dim"))


def check_kernel(launch: Launch, subgroup: int) -> None:
    """Check the rules for a kernel whose blocks become rTasks.

    The kernel must have structured control flow (``scf``), operations with known effects on memory,
    and memrefs of static shape. If lanes of a subgroup exchange values, its blocks must consist of
    whole subgroups. ``subgroup`` is the count of lanes of a subgroup that kernels may assume.

    Raises:
        OperationError: if a rule is broken; the message names the launch and the operation.
    """
    blocks = list(launch.kernel.regions[0].blocks)
    if len(blocks) != 1:
        launch.refuse(
            f"expected structured control flow (scf), found {len(blocks)} blocks; run this pass "
            "before convert-scf-to-cf"
        )
    for operation in walk(launch.kernel):
        _check_effects(launch, operation)
    if _uses(launch, EXCHANGES) and launch.num_threads % subgroup:
        launch.refuse(
            f"expected blocks of whole subgroups, as lanes exchange values, found "
            f"{launch.num_threads} threads; use a multiple of {subgroup}"
        )
    for number, argument in enumerate(blocks[0].arguments):
        kind = argument.type
        if isinstance(kind, ir.MemRefType) and not kind.has_static_shape:
            launch.refuse(f"expected a static shape as argument {number} of the kernel, got {kind}")


def uses_subgroups(launch: Launch) -> bool:
    """Return whether a kernel's results may depend on the count of lanes of a subgroup."""
    return _uses(launch, SUBGROUP_OPERATIONS)


def _uses(launch: Launch, names: Set[str]) -> bool:
    return any(operation.name in names for operation in walk(launch.kernel))


def _check_effects(launch: Launch, operation: ir.Operation) -> None:
    name = operation.name
    if not is_known(name):
        launch.refuse(
            f"expected operations whose effects on memory are known, found '{name}' in the kernel; "
            f"{_advice(name)}"
        )
    if any(map(is_memref, operation.operands)) and name not in _ON_MEMREFS:
        launch.refuse(
            f"expected memrefs in loads, stores and views only, found one in '{name}'; use it "
            "inside of the loop"
        )
    if name == "memref.alloca" and len(operation.operands):
        launch.refuse("expected private memory of a static size, found a dynamic one")


def _advice(name: str) -> str:
    if name.endswith(".call"):
        return "inline it (inline)"
    if name.startswith("linalg."):
        return "run convert-linalg-to-loops"
    return "write it with loads, stores and arithmetic"
