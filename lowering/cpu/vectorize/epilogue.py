"""Elementwise operations behind a reduction, done in registers before its results are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.body import Body
from rammer_mlir.lowering.cpu.vectorize.fills import is_without_effect, root
from rammer_mlir.lowering.ir_walk import walk


@dataclass(frozen=True)
class Epilogue:
    """An elementwise ``linalg.generic`` that reads what a reduction computes.

    ``argument`` is the operand that it reads it by, ``dims`` has the reduction's dimension for each
    of its own, and ``keeps`` tells whether somebody else reads the reduction's results too.
    """

    operation: Any
    argument: int
    dims: tuple[int, ...]
    keeps: bool


def find_epilogue(operation: Any) -> tuple[Any, Epilogue] | None:
    """Return the reduction that an operation can be an epilogue of, and how; None if it cannot.

    The two have to stand side by side, of one element width, and to walk the same elements. What
    the epilogue writes may not be what the reduction still has to read.
    """
    reduction = _generic_before(operation)
    if reduction is None or not _is_reduction(reduction) or not _is_elementwise(operation):
        return None
    result = reduction.operands[len(reduction.operands) - 1]
    *inputs, output = operation.operands
    places = [number for number, value in enumerate(inputs) if value == result]
    if len(places) != 1 or not _apart(reduction, operation, places[0]):
        return None
    dims = _matching_dims(reduction, operation, places[0])
    if dims is None or not _one_width(reduction, operation):
        return None
    keeps = output != result and not _only_used_by(result, (reduction, operation))
    return reduction, Epilogue(operation, places[0], dims, keeps)


def _generic_before(operation: Any) -> Any:
    """Return the generic in front of an operation if nothing else there touches memory."""
    if operation.name != "linalg.generic":
        return None
    before = []
    for other in (o.operation for o in operation.block.operations):
        if other == operation:
            break
        before.append(other)
    for other in reversed(before):
        if other.name == "linalg.generic":
            return other
        if not is_without_effect(other):
            return None
    return None


def _is_reduction(operation: Any) -> bool:
    kinds = [str(kind) for kind in operation.attributes["iterator_types"]]
    return operation.attributes["operandSegmentSizes"][1] == 1 and any(
        "reduction" in kind for kind in kinds
    )


def _is_elementwise(operation: Any) -> bool:
    """Whether an operation has one output, and all it does is arithmetic on elements."""
    kinds = [str(kind) for kind in operation.attributes["iterator_types"]]
    if operation.attributes["operandSegmentSizes"][1] != 1 or "reduction" in "".join(kinds):
        return False
    maps = [attribute.value for attribute in operation.attributes["indexing_maps"]]
    if any(_dims(map_) is None for map_ in maps):
        return False
    body = Body(operation.regions[0].blocks[0], contract=False)
    return body.vectorizable and not body.indices and not body.uses(body.arguments - 1)


def _apart(reduction: Any, operation: Any, argument: int) -> bool:
    """Whether the epilogue's other operands are no views of what the reduction works on.

    Only its output may be the reduction's, element for element.
    """
    *inputs, output = operation.operands
    *sources, result = reduction.operands
    maps = [attribute.value for attribute in operation.attributes["indexing_maps"]]
    others = [
        (v, m) for n, (v, m) in enumerate(zip(inputs, maps[:-1], strict=True)) if n != argument
    ]
    if any(root(value) == root(result) for value, _ in others):
        return False
    if any(root(value) == root(output) and (value, m) != (output, maps[-1]) for value, m in others):
        return False
    if any(root(value) == root(output) for value in sources):
        return False
    same = output == result and maps[argument] == maps[-1]
    return same or root(output) != root(result)


def _matching_dims(reduction: Any, operation: Any, argument: int) -> tuple[int, ...] | None:
    """Return the reduction's dimension for each dimension of the epilogue."""
    produced = _dims(reduction.attributes["indexing_maps"][len(reduction.operands) - 1].value)
    read = _dims(operation.attributes["indexing_maps"][argument].value)
    kinds = [str(kind) for kind in reduction.attributes["iterator_types"]]
    parallel = [dim for dim, kind in enumerate(kinds) if "parallel" in kind]
    if produced is None or read is None or sorted(produced) != parallel:
        return None
    if sorted(read) != list(range(len(list(operation.attributes["iterator_types"])))):
        return None
    pairs = dict(zip(read, produced, strict=True))
    return tuple(pairs[dim] for dim in range(len(pairs)))


def _dims(affine_map: Any) -> list[int] | None:
    """Return the dimensions that index an operand, None if one is an expression."""
    results = list(affine_map.results)
    if not all(isinstance(result, ir.AffineDimExpr) for result in results):
        return None
    return [result.position for result in results]


def _one_width(reduction: Any, operation: Any) -> bool:
    values = [*reduction.operands, *operation.operands]
    return len({str(_element(value)) for value in values}) == 1


def _element(value: Any) -> Any:
    return value.type.element_type if isinstance(value.type, ir.MemRefType) else value.type


def _only_used_by(value: Any, operations: tuple[Any, Any]) -> bool:
    """Whether a temporary is read by none but the two operations (and written by fills)."""
    owner = root(value).owner
    if isinstance(owner, ir.Block) or owner.name not in ("memref.alloc", "memref.alloca"):
        return False
    kernel = operations[0]
    while kernel.name != "func.func":
        kernel = kernel.parent.operation
    readers = [
        other
        for other in walk(kernel)
        if other not in operations
        and not is_without_effect(other)
        and any(
            isinstance(v.type, ir.MemRefType) and root(v) == root(value) for v in other.operands
        )
    ]
    return all(_only_writes(other, value) for other in readers)


def _only_writes(operation: Any, value: Any) -> bool:
    """Whether an operation is a generic that does not read the buffer behind ``value``."""
    if operation.name != "linalg.generic":
        return False
    inputs, outputs = operation.attributes["operandSegmentSizes"]
    body = Body(operation.regions[0].blocks[0], contract=False)
    return all(
        number >= inputs and body.uses(body.arguments - outputs + number - inputs) == 0
        for number, operand in enumerate(operation.operands)
        if isinstance(operand.type, ir.MemRefType) and root(operand) == root(value)
    )
