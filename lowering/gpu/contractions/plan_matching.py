"""Selects the ``linalg.generic`` operations of an rKernel that get a plan, and plans them.

A plan determines how a block computes the operation in shared memory and registers. Planned
operations are contractions whose operands a block stages in shared memory, column reductions, and
element-wise operations that transpose an operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.column_plan import ColumnPlan, plan_columns
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MatrixUnit
from rammer_mlir.lowering.gpu.contractions.plan import (
    Access,
    Contraction,
    ContractionPlan,
)
from rammer_mlir.lowering.gpu.contractions.plan_search import plan_contraction
from rammer_mlir.lowering.gpu.contractions.transposed_operands import find_transposition
from rammer_mlir.lowering.gpu.lane_reductions import can_exchange
from rammer_mlir.lowering.gpu.transposition_plan import TranspositionPlan
from rammer_mlir.lowering.ir_walk import producer, walk
from rammer_mlir.lowering.kernels.affine import upper_bound
from rammer_mlir.lowering.kernels.buffers import ALLOCATIONS
from rammer_mlir.lowering.kernels.combiners import find_combiners
from rammer_mlir.passes.ir.boxes import linear_form
from rammer_mlir.passes.ir.structured import LoopDimension, Structured, element_bytes, is_buffer

PLAN = "rtask.contraction"
"""Attribute of a planned operation: the index of its plan."""


Plan = ContractionPlan | ColumnPlan | TranspositionPlan

_ELEMENTS = (ir.F32Type, ir.F16Type, ir.BF16Type, ir.F64Type)

_STAGED_BYTES = 4
"""Size in bytes of a staged contraction's result, which is accumulated in a 32-bit register."""


def plan_contractions(
    kernel: ir.Operation,
    threads: int,
    shared_limit: int,
    *,
    matrix_unit: MatrixUnit | None = None,
) -> tuple[Plan, ...]:
    """Plan the ``linalg.generic`` operations of an rKernel where possible; return the plans.

    Each planned operation gets the attribute ``rtask.contraction``: the index of the operation's
    plan in the returned tuple.

    Args:
        kernel: an rKernel before the pass ``expand-strided-metadata``, after which fewer sizes of
            views are static.
        threads: number of threads of the block.
        shared_limit: bytes of shared memory for staging.
        matrix_unit: the target's matrix instruction, restricted to permitted element types; None
            for none.
    """
    plans: list[Plan] = []
    for operation in walk(kernel):
        if operation.name != "linalg.generic":
            continue
        plan = _plan(Structured(operation.opview), threads, shared_limit, matrix_unit)
        if plan:
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(plans))
            operation.attributes[PLAN] = number
            plans.append(plan)
    return tuple(plans)


def _plan(
    generic: Structured, threads: int, shared_limit: int, unit: MatrixUnit | None
) -> Plan | None:
    contraction = read_contraction(generic)
    if contraction is None:
        return find_transposition(generic, shared_limit)
    if _can_stage(contraction):
        staged = plan_contraction(contraction, threads, shared_limit, unit=unit)
        if staged is not None:
            return staged
    return plan_columns(contraction, threads, shared_limit) if _all_static(generic) else None


def _can_stage(contraction: Contraction) -> bool:
    elements = [access.element_bytes for access in contraction.inputs]
    return contraction.result_bytes == _STAGED_BYTES and max(elements) <= _STAGED_BYTES


def read_contraction(generic: Structured) -> Contraction | None:
    """Return the contraction that a ``linalg.generic`` computes; None if it does not compute one.

    A contraction has one result, a reduction over the inputs, and reads the inputs at linear
    functions of the loop indices. The result is also None if a loop's trip count has no known
    bound, or if a reduction loop's trip count is dynamic.
    """
    if generic.num_outputs != 1 or not generic.reduction_loops or generic.uses_index:
        return None
    if not can_exchange(find_combiners(generic)):
        return None
    extents = _extents(generic)
    operands = [number for number, value in enumerate(generic.inputs) if is_buffer(value)]
    accesses = [_access(generic, number) for number in operands]
    inputs = tuple(access for access in accesses if access is not None)
    if extents is None or len(inputs) < len(accesses) or not inputs or not _is_static(generic):
        return None
    return Contraction(
        extents, generic.parallel_loops, generic.reduction_loops, inputs,
        generic.matrix_element, element_bytes(generic.outputs[0].type),
    )  # fmt: skip


def _access(generic: Structured, number: int) -> Access | None:
    map_ = generic.maps[number]
    element = generic.arguments[number].type
    forms = [linear_form(result) for result in map_.results]
    known = [form for form in forms if form is not None]
    if not forms or len(known) < len(forms) or not isinstance(element, _ELEMENTS):
        return None
    if any(factor < 0 for form in known for factor in form.coefficients.values()):
        return None
    return Access(
        number,
        tuple(tuple(form.factors(map_.n_dims)) for form in known),
        tuple(form.constant for form in known),
        element_bytes(element),
    )


def _extents(generic: Structured) -> tuple[int, ...] | None:
    """Return an upper bound on each loop's trip count; None if a loop has no known bound."""
    found: list[int | None] = [None] * len(generic.parallel)
    for source in generic.loop_dimensions:
        extent = _extent(source)
        if extent is not None:
            found[source.loop] = min(extent, found[source.loop] or extent)
    known = [extent for extent in found if extent is not None]
    return tuple(known) if len(known) == len(found) else None


def _extent(source: LoopDimension) -> int | None:
    if source.is_static:
        return source.size
    kind, value = ir.MemRefType(source.value.type), source.value
    place = sum(kind.is_dynamic_dim(n) for n in range(source.dimension))
    sizes = _dynamic_sizes(value)
    # Rank-reducing subviews drop static dimensions only.
    return None if sizes is None else upper_bound(sizes[place])


def _dynamic_sizes(buffer: ir.Value) -> Sequence[ir.Value] | None:
    if isinstance(buffer.owner, ir.Block):
        return None
    if producer(buffer) == "memref.subview":
        view: Any = buffer.owner.operation.opview  # the bindings' classes of dialects have no types
        return list(view.sizes)
    return buffer.owner.operands if producer(buffer) in ALLOCATIONS else None


def _all_static(generic: Structured) -> bool:
    return all(value.type.has_static_shape for value in generic.operands if is_buffer(value))


def _is_static(generic: Structured) -> bool:
    """Return whether the size of each reduction loop is static."""
    return all(generic.extent_sources[loop].is_static for loop in generic.reduction_loops)
