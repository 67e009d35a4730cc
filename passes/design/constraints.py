"""Reads the loops, values and memory traffic of an rOperator's function for the design search.

The design search finds the cheapest mapping of the loops to vEUs and vector lanes. Every
``linalg.generic`` becomes an assignment, except fills and similar operations whose results are not
returned. An assignment reads its operands and the tensors that its body captures. A dimension of a
read tensor is known to be indexed by a loop if the index is a loop dimension of the indexing map,
or a ``linalg.index`` that a ``tensor.extract`` in the body uses. For a value that is read through
another operation, such as a reshape, no such loop is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.boxes import linear_form, loops_in
from rammer_mlir.passes.ir.structured import (
    Structured,
    captured_values,
    element_bytes,
    plain_dim,
    shape_of,
)
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.passes.tiling.space import is_free
from rammer_mlir.scheduling.designs.problem import (
    Assignment,
    Decision,
    Loop,
    LoopKind,
    Problem,
    Read,
    Span,
    Traffic,
    Value,
)

_MOST_DECIDED = 6
"""Maximum number of values for which the search decides whether to keep, recompute or store them.

Each of these values triples the number of designs (mappings of loops).
"""

Dims = tuple[int | None, ...]
"""For each dimension of a value, the index of the only loop that indexes the dimension, or None."""


def read_problem(computation: Computation, *, decide_values: bool = False) -> Problem | None:
    """Return the loops, values and memory traffic of a function; None if it has no loop to map.

    Args:
        computation: the function of an rOperator, on whole tensors.
        decide_values: whether the design search decides on values that are broadcast or read more
            than once: keep them, recompute them in each reader, or store them in memory and end the
            fused group there. The search decides on the first ``_MOST_DECIDED`` of these values.
    """
    reader = _Reader(computation)
    extents = [extent for op in reader.operations for extent in op.extents]
    if not extents or min(extents) < 1:
        return None
    problem = reader.problem()
    return _with_decisions(problem, reader.opaque) if decide_values else problem


def _with_decisions(problem: Problem, opaque: set[int]) -> Problem:
    values = list(problem.values)
    wanted = [n for n in range(len(values)) if n not in opaque and _is_shared(problem, n)]
    for number in wanted[:_MOST_DECIDED]:
        values[number] = replace(values[number], decisions=tuple(Decision))
    return replace(problem, values=tuple(values))


def _is_shared(problem: Problem, value: int) -> bool:
    """Whether a value is read more than once, or is broadcast over a loop of a reader.

    ``value`` is the index of the value in ``problem``.
    """
    reads = [read for read in problem.reads if read.value == value]
    return len(reads) > 1 or any(
        not set(problem.assignments[read.reader].loops) <= set(read.dims) for read in reads
    )


@dataclass(frozen=True)
class _Source:
    """A result of an assignment (loop nest) that is read, directly or through other operations.

    For example, an operand may be a reshape of a result.

    Attributes:
        value: the index of the result among the results of all assignments of the function.
        is_direct: whether the operand is the result itself.
    """

    value: int
    is_direct: bool


class _Reader:
    """Reads the assignments (loop nests), loops and values of a function, and numbers them from 0.

    The values are the results of the assignments. Assignments, loops and values are numbered
    separately.
    """

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self.operations = [
            op
            for op in computation.generics
            if not is_free(op) or _returns(computation, op.op.operation)
        ]
        self.opaque: set[int] = set()
        """Indices of the values that loop nests read through operations other than generics."""
        self._values: dict[ir.Value, int] = {}
        for op in self.operations:
            for result in op.op.operation.results:
                self._values[result] = len(self._values)
        self._moved: set[tuple[ir.Value, str]] = set()

    @cached_property
    def _first_loops(self) -> list[int]:
        """The index of each loop nest's first loop; the last element is the count of all loops."""
        first = [0]
        for op in self.operations:
            first.append(first[-1] + len(op.parallel))
        return first

    def problem(self) -> Problem:
        """Return the design problem of the function, in which each value is computed once and kept.

        The caller may allow other decisions: to recompute a value in each reader, or to write the
        value to memory and end the fused group there.
        """
        numbers = range(len(self.operations))
        return Problem(
            tuple(loop for n in numbers for loop in self._loops(n)),
            tuple(self._assignment(n) for n in numbers),
            tuple(value for n in numbers for value in self._results(n)),
            tuple(dict.fromkeys(read for n in numbers for read in self._reads(n))),
        )

    def _name(self, number: int) -> str:
        """Return a name for loop nest ``number``, such as ``exp_3``: an operation and ``number``.

        The operation is the last one of the ``math`` dialect in the loop nest's body, or else the
        last of the body; the name of an empty body starts with ``copy``.
        """
        names = [inner.operation.name for inner in self.operations[number].body]
        dear = [name for name in names if name.startswith("math.")]
        name = [*names, *dear][-1] if names else "copy"
        return f"{name.rpartition('.')[2]}_{number}"

    def _loops(self, number: int) -> Iterator[Loop]:
        op = self.operations[number]
        for loop, (extent, is_parallel) in enumerate(zip(op.extents, op.parallel, strict=True)):
            kind = LoopKind.ASSIGNMENT if is_parallel else LoopKind.REDUCTION
            yield Loop(f"{self._name(number)}.d{loop}", extent, kind, _is_contiguous(op, loop))

    def _assignment(self, number: int) -> Assignment:
        op, first = self.operations[number], self._first_loops[number]
        return Assignment(
            self._name(number),
            tuple(range(first, first + len(op.parallel))),
            max(1, op.operations // max(op.points, 1)),
            tuple(self._traffic(number)),
            _returns(self._computation, op.op.operation),
        )

    def _results(self, number: int) -> Iterator[Value]:
        op = self.operations[number]
        for position, result in enumerate(op.op.operation.results):
            dims = self._dims(number, op.output_maps[position])
            shape, size = tuple(shape_of(result)), element_bytes(result.type)
            name = self._name(number) + (f"#{position}" if position else "")
            yield Value(name, number, dims, shape, size)

    def _dims(self, number: int, map_: ir.AffineMap) -> Dims:
        return self._numbered(number, [plain_dim(expr) for expr in map_.results])

    def _numbered(self, number: int, loops: Sequence[int | None]) -> Dims:
        first = self._first_loops[number]
        return tuple(None if loop is None else first + loop for loop in loops)

    def _reads(self, number: int) -> Iterator[Read]:
        op = self.operations[number]
        for map_, operand in zip(op.maps, op.op.operation.operands, strict=True):
            yield from self._reads_of(number, operand, self._dims(number, map_))
        for extract in _extracts(op):
            tensor, *indices = extract.operands
            yield from self._reads_of(number, tensor, self._numbered(number, _loops_of(indices)))
        extracted = {extract.operands[0] for extract in _extracts(op)}
        for value in op.captures:
            if value not in extracted:
                yield from self._reads_of(number, value, (None,) * len(shape_of(value)))

    def _reads_of(self, number: int, value: ir.Value, dims: Dims) -> Iterator[Read]:
        for source in self._sources(value):
            if source.is_direct:
                yield Read(source.value, number, dims)
            else:
                self.opaque.add(source.value)
                result = next(v for v, n in self._values.items() if n == source.value)
                yield Read(source.value, number, (None,) * len(shape_of(result)))

    def _sources(self, value: ir.Value) -> Iterator[_Source]:
        """Yield the results of loop nests that are ``value``, or from which ``value`` is computed.

        If another operation, such as a reshape, computes ``value``, yield the sources of all values
        that this operation reads. An argument of the function has no sources.
        """
        if value in self._values:
            yield _Source(self._values[value], is_direct=True)
            return
        owner = value.owner
        if isinstance(owner, ir.Block):
            return
        for operand in (*owner.operands, *captured_values(owner.opview)):
            yield from (_Source(s.value, is_direct=False) for s in self._sources(operand))

    def _traffic(self, number: int) -> Iterator[Traffic]:
        """Yield the memory traffic of loop nest ``number``: inputs, gathers and returned results.

        An input that several loop nests read by equal indexing maps counts once.
        """
        op = self.operations[number]
        for position, value in enumerate(op.operands):
            is_read = position < len(op.inputs) or op.reads_output(position - len(op.inputs))
            map_ = op.maps[position]
            if isinstance(value.owner, ir.Block) and is_read and self._is_new(value, str(map_)):
                yield Traffic(self._spans(number, map_, value), element_bytes(value.type))
        for extract in _extracts(op):
            if isinstance(extract.operands[0].owner, ir.Block):
                yield Traffic(self._points(number), element_bytes(extract.operands[0].type))
        for map_, value in zip(op.output_maps, op.op.operation.results, strict=True):
            if value in self._computation.returned:
                spans = self._spans(number, map_, value)
                yield Traffic(spans, element_bytes(value.type), is_write=True)

    def _is_new(self, value: ir.Value, map_: str) -> bool:
        known = (value, map_) in self._moved
        self._moved.add((value, map_))
        return not known

    def _points(self, number: int) -> tuple[Span, ...]:
        """Return the spans of a gather in loop nest ``number``, one span for each loop.

        The product of the spans is the count of elements that a tile reads. A gather
        (``tensor.extract``) reads one element in every iteration of the tile, so that each span is
        the count of the tile's iterations of one loop.
        """
        loops = range(self._first_loops[number], self._first_loops[number + 1])
        return tuple(Span(((loop, 1),)) for loop in loops)

    def _spans(self, number: int, map_: ir.AffineMap, value: ir.Value) -> tuple[Span, ...]:
        sizes = zip(map_.results, shape_of(value), strict=True)
        return tuple(self._span(number, expr, size) for expr, size in sizes)

    def _span(self, number: int, expr: ir.AffineExpr, size: int) -> Span:
        form = linear_form(expr)
        if form is None:
            return Span((), size)
        first = self._first_loops[number]
        factors = sorted(form.coefficients.items())
        return Span(tuple((first + loop, abs(factor)) for loop, factor in factors))


def _returns(computation: Computation, operation: ir.Operation) -> bool:
    return any(result in computation.returned for result in operation.results)


def _is_contiguous(op: Structured, loop: int) -> bool:
    """Whether a loop indexes only last dimensions of operands, with a coefficient of 1 or -1."""
    for map_ in op.maps:
        *outer, last = map_.results or [None]
        if any(loop in loops_in(expr) for expr in outer if expr is not None):
            return False
        if last is not None and loop in loops_in(last):
            form = linear_form(last)
            if form is None or abs(form.coefficients.get(loop, 0)) != 1:
                return False
    return True


def _extracts(op: Structured) -> list[ir.Operation]:
    """Return the ``tensor.extract`` operations in the body of a ``linalg.generic``."""
    return [inner.operation for inner in op.body if inner.operation.name == "tensor.extract"]


def _loops_of(indices: Sequence[ir.Value]) -> list[int | None]:
    return [_loop_of(index) for index in indices]


def _loop_of(index: ir.Value) -> int | None:
    owner = index.owner
    if isinstance(owner, ir.Block) or owner.name != "linalg.index":
        return None
    return ir.IntegerAttr(owner.attributes["dim"]).value
