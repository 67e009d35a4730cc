"""Which ``linalg.generic`` operations of an rKernel a block computes by a plan.

They are contractions that a block stages, reductions of columns, and element-wise operations that
turn an operand.
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
from rammer_mlir.lowering.gpu.contractions.search import plan_contraction
from rammer_mlir.lowering.gpu.contractions.turned_operands import find_transposition
from rammer_mlir.lowering.gpu.lane_reductions import combiners
from rammer_mlir.lowering.gpu.transposition_plan import TranspositionPlan
from rammer_mlir.lowering.ir_walk import producer, walk
from rammer_mlir.lowering.kernels.affine import linear_form, upper_bound

PLAN = "rtask.contraction"
"""Attribute of a planned operation: the number of its plan."""


Plan = ContractionPlan | ColumnPlan | TranspositionPlan

_PRODUCTS = ["arith.addf", "arith.mulf"]

_ELEMENTS = (ir.F32Type, ir.F16Type, ir.BF16Type)


def plan_contractions(
    kernel: Any, threads: int, shared_limit: int, *, matrix_unit: MatrixUnit | None = None
) -> tuple[Plan, ...]:
    """Plan what an rKernel computes by plans, and mark each operation with its plan's number.

    Args:
        kernel: an rKernel whose views still have their sizes.
        threads: of the block.
        shared_limit: bytes of shared memory for staging.
        matrix_unit: the target's matrix instruction, for the types that it may multiply.
    """
    plans: list[Plan] = []
    for operation in walk(kernel):
        if operation.name != "linalg.generic":
            continue
        contraction = read_contraction(operation)
        plan: Plan | None = contraction and plan_contraction(
            contraction, threads, shared_limit, unit=matrix_unit
        )
        if contraction and not plan and _all_static(operation):
            plan = plan_columns(contraction, threads, shared_limit)
        if contraction is None:
            plan = find_transposition(operation, shared_limit)
        if plan:
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(plans))
            operation.attributes[PLAN] = number
            plans.append(plan)
    return tuple(plans)


def read_contraction(generic: Any) -> Contraction | None:
    """Describe a ``linalg.generic``, None if it is no contraction with known bounds.

    It has one result, which elements of its inputs are folded into; all indices are linear.
    """
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    kinds = [str(kind) for kind in generic.attributes["iterator_types"]]
    parallel = tuple(n for n, kind in enumerate(kinds) if "parallel" in kind)
    reduced = tuple(n for n, kind in enumerate(kinds) if "parallel" not in kind)
    body = [op.operation.name for op in generic.regions[0].blocks[0].operations]
    if not reduced or "linalg.index" in body or len(combiners(generic) or []) != 1:
        return None
    operands = list(generic.operands)
    extents = _extents(operands, maps)
    inputs = [_access(n, operands[n], maps[n]) for n in range(len(operands) - 1)]
    memory = [i for i, o in zip(inputs, operands[:-1], strict=True)
              if isinstance(o.type, ir.MemRefType)]  # fmt: skip
    if extents is None or any(access is None for access in memory) or not memory:
        return None
    if not _static(operands, maps, reduced):
        return None
    known = tuple(access for access in memory if access is not None)
    return Contraction(extents, parallel, reduced, known, _matrix_element(generic))


def _access(number: int, operand: Any, access: Any) -> Access | None:
    if not isinstance(operand.type, ir.MemRefType) or not len(access.results):
        return None
    element = operand.type.element_type
    forms = [linear_form(result, access.n_dims) for result in access.results]
    known = [form for form in forms if form is not None]
    if len(known) < len(forms) or not isinstance(element, _ELEMENTS):
        return None
    if any(factor < 0 for factors, _ in known for factor in factors):
        return None
    return Access(
        number,
        tuple(tuple(factors) for factors, _ in known),
        tuple(constant for _, constant in known),
        element.width // 8,
    )


def _matrix_element(generic: Any) -> str:
    """Return the type of which products are added to an f32, "" if it is something else."""
    body = generic.regions[0].blocks[0]
    *operations, end = [op.operation for op in body.operations]
    names = sorted(op.name for op in operations)
    *inputs, accumulator = body.arguments
    if names not in (_PRODUCTS, [*_PRODUCTS[:1], "arith.extf", "arith.extf", *_PRODUCTS[1:]]):
        return ""
    if len(inputs) != 2 or not isinstance(accumulator.type, ir.F32Type):
        return ""
    kinds = {str(argument.type) for argument in inputs}
    factor = "arith.extf" if len(names) > len(_PRODUCTS) else "arith.mulf"
    taken = [value for op in operations if op.name == factor for value in op.operands]
    takes_both = all(argument in taken for argument in inputs)
    is_sum = end.operands[0].owner.operation.name == "arith.addf"
    expected = ({"f32"},) if factor == "arith.mulf" else ({"f16"}, {"bf16"})
    return kinds.pop() if kinds in expected and is_sum and takes_both else ""


def _extents(operands: Sequence[Any], maps: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the most iterations of each loop, None if one has no bound."""
    found: list[int | None] = [None] * maps[0].n_dims
    for operand, access in zip(operands, maps, strict=True):
        for dimension, result in enumerate(access.results):
            if isinstance(result, ir.AffineDimExpr):
                extent = _extent(operand, dimension)
                if extent is not None:
                    found[result.position] = min(extent, found[result.position] or extent)
    known = [extent for extent in found if extent is not None]
    return tuple(known) if len(known) == len(found) else None


def _extent(operand: Any, dimension: int) -> int | None:
    if not operand.type.is_dynamic_dim(dimension):
        return operand.type.shape[dimension]
    place = sum(operand.type.is_dynamic_dim(n) for n in range(dimension))
    if producer(operand) == "memref.subview":
        sizes = list(operand.owner.opview.sizes)
    elif producer(operand) in ("memref.alloc", "memref.alloca"):
        sizes = list(operand.owner.operands)
    else:
        return None
    # A subview that drops dimensions drops static ones.
    return upper_bound(sizes[place])


def _all_static(generic: Any) -> bool:
    kinds = [operand.type for operand in generic.operands]
    return all(kind.has_static_shape for kind in kinds if isinstance(kind, ir.MemRefType))


def _static(operands: Sequence[Any], maps: Sequence[Any], loops: Sequence[int]) -> bool:
    """Return whether some operand gives each loop a static size."""
    given = {
        result.position
        for operand, access in zip(operands, maps, strict=True)
        for dimension, result in enumerate(access.results)
        if isinstance(result, ir.AffineDimExpr) and not operand.type.is_dynamic_dim(dimension)
    }
    return set(loops) <= given
