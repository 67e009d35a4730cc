"""Lowers scatters to reductions: each element combines the updates that are scattered to it.

Specifications: https://openxla.org/stablehlo/spec#scatter, and the operation ``scatter`` of
torch-mlir's dialect TMTensor. Elements are computed independently, at the cost of testing every
scatter index for each element. Scatters of few updates into many elements, such as the gradient of
an embedding, would need too many tests; they become a sequential loop over the updates instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import arith, ir, linalg, scf, stablehlo, tensor
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import (
    all_of,
    cloned_body,
    index,
    per_element,
    to_index,
)
from rammer_mlir.passes.legalization.loops import STAYS_SEQUENTIAL
from rammer_mlir.passes.legalization.static_results import take_static_operands

_Combine = Callable[[ir.Value, ir.Value], ir.Value]

_COMBINED: dict[str, tuple[_Combine, _Combine]] = {
    "stablehlo.add": (arith.addf, arith.addi),
    "stablehlo.multiply": (arith.mulf, arith.muli),
    "stablehlo.maximum": (arith.maximumf, arith.maxsi),
    "stablehlo.minimum": (arith.minimumf, arith.minsi),
}
"""The functions that combine an update with an element, for floats and for integers.

The key is the operation in the scatter's body.
"""

_MOST_TESTS = 1 << 26
"""Maximum number of tests, of a scatter index for an element, in a reduction with few updates.

They take some ten milliseconds on a core.
"""

_TESTS_PER_UPDATE = 1 << 8
"""Number of tests from which on sequentially combining an update takes less time.

A vectorized test takes some tenths of a nanosecond; an update in a loop takes a few nanoseconds on
a CPU, and up to a microsecond on a GPU.
"""


def lower_scatters(module: ir.Module) -> None:
    """Replace scatters that overwrite, add, multiply, or take a minimum or maximum.

    A scatter becomes a reduction, or loops over its updates if a reduction would take too long.
    These scatters remain unchanged: those of several operands, of dynamic shapes or with other
    combining functions, minima and maxima of integers, and arithmetic on truth values (i1).
    """
    if stablehlo is None:
        return
    for op in operations_named(module.operation, "stablehlo.scatter"):
        take_static_operands(op)
        combine = _combine(op)
        if combine is None:
            continue
        with ir.InsertionPoint(op), op.location:
            kind = op.results[0].type
            operands = [_viewed(value, _signless(value.type)) for value in op.operands]
            number = len(operands) // 2  # the indices follow the tensors to update
            operands[number] = _signed_indices(op.operands[number], operands[number])
            lowered = _lowered(operands, _numbers(op), combine)
            replace(op, [_viewed(lowered, kind)])


def torch_scatter(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Emit the operation that replaces a ``tm_tensor.scatter``, and return its result.

    The scatter's body, which combines an update with an element, may be any function; updates are
    combined in their order. Updates with indices out of range are ignored. Return None if a
    dimension of the result is neither addressed by an index nor covered by the window of an update.

    Args:
        op: the scatter.
        operands: the updates, indices and initial values of the scatter, of static shapes.
    """
    updates, indices, original = operands
    update_rank, rank = (ir.RankedTensorType(v.type).rank for v in (updates, original))
    indexed = list(ir.DenseI64ArrayAttr(op.attributes["dimension_map"]))
    inserted = range(rank - update_rank + 1)  # the window covers the last dimensions
    if not {*inserted} <= {*indexed}:
        return None
    numbers = _Numbers(range(1, update_rank), inserted, [], [], indexed, index_vector_dim=1)
    block = op.regions[0].blocks[0]

    def combine(current: ir.Value, update: ir.Value) -> ir.Value:
        return cloned_body(block, [update, current])

    return [_lowered([original, indices, updates], numbers, combine)]


def _signed_indices(given: ir.Value, signless: ir.Value) -> ir.Value:
    """Emit the zero extension of unsigned indices to 64 bits, and return it.

    ``signless`` is ``given``, cast to signless integers; it is returned for signed and signless
    indices, and for indices of 64 bits.
    """
    kind = ir.RankedTensorType(given.type)
    element = kind.element_type
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned or element.width == 64:
        return signless
    wide = ir.IntegerType.get_signless(64)
    identity = ir.AffineMap.get_identity(kind.rank)
    return per_element(
        list(kind.shape), wide, [(signless, identity)],
        lambda elements, _: arith.extui(wide, elements[0]),
    )  # fmt: skip


def _signless(kind: ir.Type) -> ir.Type:
    """Return a tensor type with signless integers, which operations of arith require."""
    ranked = ir.RankedTensorType(kind)
    element = ranked.element_type
    if not isinstance(element, ir.IntegerType):
        return kind
    return ir.RankedTensorType.get(ranked.shape, ir.IntegerType.get_signless(element.width))


def _viewed(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Emit a cast of a tensor to the type ``kind``.

    ``kind`` differs from the tensor's type at most in the signedness of the integers. The cast
    disappears when StableHLO is lowered.
    """
    if value.type == kind:
        return value
    name = "builtin.unrealized_conversion_cast"
    return ir.Operation.create(name, [kind], [value]).results[0]


def _combine(op: ir.Operation) -> _Combine | None:
    """Return the function that combines an update with an element in the scatter ``op``.

    Return None if the scatter's body is not supported.
    """
    if len(op.operands) != 3 or not all(
        ir.RankedTensorType(value.type).has_static_shape for value in op.operands
    ):
        return None
    block = op.regions[0].blocks[0]
    current, update = block.arguments
    *inner, returned = [each.operation for each in block.operations]
    if not inner:
        return _overwrite if returned.operands[0] == update else None
    if len(inner) > 1 or inner[0].name not in _COMBINED:
        return None
    if {*inner[0].operands} != {current, update}:
        return None
    of_floats, of_integers = _COMBINED[inner[0].name]
    element = ir.RankedTensorType(op.operands[0].type).element_type
    if isinstance(element, ir.FloatType):
        return of_floats
    # Signless integers have lost their signs here, and a sum of truth values would be "or".
    signs_matter = inner[0].name in ("stablehlo.maximum", "stablehlo.minimum")
    is_safe = isinstance(element, ir.IntegerType) and element.width > 1 and not signs_matter
    return of_integers if is_safe else None


def _overwrite(_current: ir.Value, update: ir.Value) -> ir.Value:
    return update


@dataclass(frozen=True)
class _Numbers:
    """The dimension numbers of a scatter, with the names of StableHLO's specification."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    input_batching_dims: Sequence[int]
    scatter_indices_batching_dims: Sequence[int]
    scattered_dims_to_operand_dims: Sequence[int]
    index_vector_dim: int


def _numbers(op: ir.Operation) -> _Numbers:
    assert stablehlo is not None
    given = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    return _Numbers(
        list(given.update_window_dims),
        list(given.inserted_window_dims),
        list(given.input_batching_dims),
        list(given.scatter_indices_batching_dims),
        list(given.scattered_dims_to_operand_dims),
        given.index_vector_dim,
    )


def _lowered(operands: Sequence[ir.Value], numbers: _Numbers, combine: _Combine) -> ir.Value:
    """Emit the operations that replace a scatter, and return the result.

    They are a reduction, or loops over the updates if a reduction would take too long.

    Args:
        operands: the tensor to update, the scatter indices and the updates, of static shapes.
        numbers: the dimension numbers of the scatter.
        combine: emits the combination of an element with an update.
    """
    shape, _, update_shape = (ir.RankedTensorType(value.type).shape for value in operands)
    each = [n for dim, n in enumerate(update_shape) if dim not in numbers.update_window_dims]
    tests = prod(shape) * prod(each)
    if tests > max(_MOST_TESTS, _TESTS_PER_UPDATE * prod(update_shape)):
        return _loops(operands, numbers, combine, [])
    return _reduction(operands, numbers, combine)


def _loops(
    operands: Sequence[ir.Value],
    numbers: _Numbers,
    combine: _Combine,
    counters: Sequence[ir.Value],
) -> ir.Value:
    """Emit loops over all updates, which combine each update with its element; return the result.

    Each call emits one loop and calls itself for the next inner loop.

    Args:
        operands: the tensor to update, the scatter indices and the updates, of static shapes.
        numbers: the dimension numbers of the scatter.
        combine: emits the combination of an element with an update.
        counters: the induction variables of the outer loops that are already emitted.
    """
    operand, indices, updates = operands
    shape = ir.RankedTensorType(updates.type).shape
    if len(counters) == len(shape):
        return _Update(indices, updates, numbers, counters).combined(operand, combine)
    loop = scf.ForOp(index(0), index(shape[len(counters)]), index(1), [operand])
    loop.operation.attributes[STAYS_SEQUENTIAL] = ir.UnitAttr.get()
    with ir.InsertionPoint(loop.body):
        (state,) = loop.inner_iter_args
        inner = _loops(
            [state, indices, updates], numbers, combine, [*counters, loop.induction_variable]
        )
        scf.YieldOp([inner])
    return loop.results[0]


def _reduction(operands: Sequence[ir.Value], numbers: _Numbers, combine: _Combine) -> ir.Value:
    """Emit loops over the elements of the result, with a reduction over all scatter indices.

    Return the result.

    Args:
        operands: the tensor to update, the scatter indices and the updates, of static shapes.
        numbers: the dimension numbers of the scatter.
        combine: emits the combination of an element with an update.
    """
    operand, indices, updates = operands
    rank = len(ir.RankedTensorType(operand.type).shape)
    update_shape = list(ir.RankedTensorType(updates.type).shape)
    scatter_dims = [n for n in range(len(update_shape)) if n not in numbers.update_window_dims]
    loops = rank + len(scatter_dims)
    # An unread operand that only gives the reduced loops the extents of the updates.
    element = ir.RankedTensorType(operand.type).element_type
    extents = tensor.EmptyOp([update_shape[n] for n in scatter_dims], element).result
    maps = [
        ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(n) for n in range(rank, loops)]),
        ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(n) for n in range(rank)]),
    ]
    parallel = [True] * rank + [False] * len(scatter_dims)
    loop = generic([extents], operand, maps, parallel)
    block = loop.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        found = _Element(_Windows(indices, numbers, rank), updates, scatter_dims)
        _, current = block.arguments
        is_hit, update = found.update()
        linalg.YieldOp([arith.select(is_hit, combine(current, update), current)])
    return loop.results[0]


@dataclass(frozen=True)
class _Windows:
    """Emits the places of windows: the parts of the result to which updates are scattered.

    Attributes:
        indices: the tensor of scatter indices.
        numbers: the dimension numbers of the scatter.
        rank: the rank of the result.
    """

    indices: ir.Value
    numbers: _Numbers
    rank: int

    def starts(self, scatter: Sequence[ir.Value]) -> dict[int, ir.Value]:
        """Emit the indices at which an update's window starts in the tensor to update.

        Return the start index by dimension of this tensor; along a dimension without a key, the
        window starts at 0. ``scatter`` has the values of the loops over the scatter indices.
        """
        numbers = self.numbers
        index_rank = len(ir.RankedTensorType(self.indices.type).shape)
        batch = [n for n in range(index_rank) if n != numbers.index_vector_dim]
        places = dict(zip(batch, scatter, strict=True))
        starts: dict[int, ir.Value] = {}
        for component, dimension in enumerate(numbers.scattered_dims_to_operand_dims):
            where = [
                index(component) if n == numbers.index_vector_dim else places[n]
                for n in range(index_rank)
            ]
            starts[dimension] = to_index(tensor.ExtractOp(self.indices, where).result)
        pairs = zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
        return starts | {dimension: places[at] for dimension, at in pairs}

    def dimensions(self) -> dict[int, int]:
        """Return the window dimension of the updates for each dimension of the tensor to update.

        Dimensions of this tensor along which a window has a single index have no key.
        """
        numbers = self.numbers
        without = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
        kept = [n for n in range(self.rank) if n not in without]
        return dict(zip(kept, numbers.update_window_dims, strict=True))


@dataclass(frozen=True)
class _Element:
    """Emits the body of the loops over all result elements and all scatter indices.

    Attributes:
        windows: the windows of the updates.
        updates: the tensor of updates.
        scatter_dims: the dimensions of ``updates`` along which the scatter index varies.
    """

    windows: _Windows
    updates: ir.Value
    scatter_dims: Sequence[int]

    def update(self) -> tuple[ir.Value, ir.Value]:
        """Emit the read of an update, and the test whether the update is for a result element.

        The current iteration of the loops determines the result element and the scatter index.
        Return two values: whether the scatter index has an update for the element, and this update.
        If the test is false, the update is arbitrary.
        """
        rank = self.windows.rank
        own = [linalg.IndexOp(n).result for n in range(rank)]
        scatter = [linalg.IndexOp(rank + n).result for n in range(len(self.scatter_dims))]
        starts = self.windows.starts(scatter)
        windows = self.windows.dimensions()
        shape = list(ir.RankedTensorType(self.updates.type).shape)
        places: dict[int, ir.Value] = dict(zip(self.scatter_dims, scatter, strict=True))
        conditions: list[ir.Value] = []
        for dimension, at in enumerate(own):
            start = starts.get(dimension)
            offset = at if start is None else arith.subi(at, start)
            if dimension not in windows:
                conditions.append(arith.cmpi(arith.CmpIPredicate.eq, offset, index(0)))
                continue
            window = windows[dimension]
            is_inside = _is_inside(offset, shape[window])
            conditions.append(is_inside)
            # The update is read even on a miss: clamp its index into bounds.
            places[window] = arith.select(is_inside, offset, index(0))
        read = tensor.ExtractOp(self.updates, [places[n] for n in range(len(shape))]).result
        return all_of(conditions) if conditions else _true(), read


@dataclass(frozen=True)
class _Update:
    """Emits the body of the loops over all updates.

    Attributes:
        indices: the tensor of scatter indices.
        updates: the tensor of updates.
        numbers: the dimension numbers of the scatter.
        counters: the induction variables of the loops, one per dimension of ``updates``.
    """

    indices: ir.Value
    updates: ir.Value
    numbers: _Numbers
    counters: Sequence[ir.Value]

    def combined(self, operand: ir.Value, combine: _Combine) -> ir.Value:
        """Emit the combination of an update with its element of ``operand``, the tensor to update.

        The current iteration of the loops determines the update. Return ``operand`` with the
        element replaced. An update whose place is outside of ``operand`` changes nothing.
        """
        places, conditions = list[ir.Value](), list[ir.Value]()
        for place, size in self._places(list(ir.RankedTensorType(operand.type).shape)):
            conditions.append(_is_inside(place, size))
            # The element is read even if the update is ignored: clamp its index into bounds.
            places.append(arith.select(conditions[-1], place, index(0)))
        current = tensor.ExtractOp(operand, places).result
        update = tensor.ExtractOp(self.updates, list(self.counters)).result
        is_used = all_of(conditions) if conditions else _true()
        value = arith.select(is_used, combine(current, update), current)
        return tensor.InsertOp(value, operand, places).result

    def _places(self, shape: Sequence[int]) -> list[tuple[ir.Value, int]]:
        """Emit the place of the current update in the tensor to update, whose shape is ``shape``.

        Return, for each dimension of the tensor, the index of the element that the update changes,
        and the dimension's size.
        """
        found = _Windows(self.indices, self.numbers, len(shape))
        inside = self.numbers.update_window_dims
        starts = found.starts([c for n, c in enumerate(self.counters) if n not in inside])
        windows = found.dimensions()
        places: list[tuple[ir.Value, int]] = []
        for dimension, size in enumerate(shape):
            parts = [starts[dimension]] if dimension in starts else []
            parts += [self.counters[windows[dimension]]] if dimension in windows else []
            place = arith.addi(*parts) if len(parts) == 2 else (*parts, index(0))[0]
            places.append((place, size))
        return places


def _is_inside(place: ir.Value, size: int) -> ir.Value:
    """Emit whether an index is at least 0 and below ``size``."""
    low = arith.cmpi(arith.CmpIPredicate.sge, place, index(0))
    high = arith.cmpi(arith.CmpIPredicate.slt, place, index(size))
    return arith.andi(low, high)


def _true() -> ir.Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
