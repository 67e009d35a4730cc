"""Parses the body of a ``linalg.generic`` once, and re-emits it on scalars or vectors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.cpu.vectorize import memory
from rammer_mlir.lowering.cpu.vectorize.memory import Mask
from rammer_mlir.lowering.kernels.combiners import Combiner, find_combiners
from rammer_mlir.passes.ir.cloning import rename_operands
from rammer_mlir.passes.ir.structured import Structured

_ALL_LANES = Mask(None, None)

Values: TypeAlias = "list[ir.Value | None]"
"""The value of each slot of a ``Body``, by slot; None if unused or not yet computed."""

Broadcast: TypeAlias = "Callable[[ir.Value], ir.Value]"
"""A function that broadcasts a scalar to all lanes and returns a vector unchanged."""

# Permitted deviations: a multiply-add in a reduction may be fused, and the sign of a zero that a
# maximum returns is unspecified (x86 needs five instructions for -0 < +0, two for NaN).
_CONTRACTED = ("arith.mulf", "arith.addf", "arith.subf")
_UNSIGNED_ZEROS = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")

# A division in a masked-off lane could trap, and x86 has no vector division of integers.
_INTEGER_DIVISIONS = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")

LOAD = "memref.load"
"""The operation by which a body gathers an element of a captured buffer at computed indices."""

_WORK = {
    "arith.divf": 8.0,
    "arith.maximumf": 3.0,
    "arith.minimumf": 3.0,
    "math.sqrt": 8.0,
    "math.rsqrt": 16.0,
}
_TRANSCENDENTAL_WORK = 20.0
_CHEAP_MATH = ("math.absf", "math.fma", "math.floor", "math.ceil", "math.copysign", "math.absi")


@dataclass(frozen=True)
class Instruction:
    """An operation of a body, with its name, result types and attributes.

    ``operands`` and ``results`` are slots of ``Body``: indices of the body's values.
    """

    operation: ir.Operation
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[ir.Type, ...]
    attributes: dict[str, ir.Attribute]


class Body:
    """The parsed body of a ``linalg.generic``, whose values have indices called slots.

    Slots are given to the block's arguments first, then to captured values and constants, then to
    the results of operations. If ``contract`` is true, LLVM may fuse a multiplication and an
    addition.
    """

    def __init__(self, generic: Structured, contract: bool) -> None:
        self.slots: dict[ir.Value, int] = {}
        self.captured: list[ir.Value | ir.Operation] = []
        self.indices: list[tuple[int, int]] = []  # slot of a linalg.index, its dimension
        self.instructions: list[Instruction] = []
        self.arguments = len(generic.arguments)
        self._generic, self._contract = generic, contract
        for argument in generic.arguments:
            self.slots[argument] = len(self.slots)
        operations = [op.operation for op in generic.body]
        inside = {*operations, generic.block}
        for operation in operations:
            self._capture(operation.operands, inside)
        self._capture(generic.yielded, inside)
        self._constants(operations)
        for operation in operations:
            self._read(operation)
        self.yields = tuple(self.slots[value] for value in generic.yielded)

    def _capture(self, operands: Iterable[ir.Value], inside: set[ir.Operation | ir.Block]) -> None:
        """Assign slots to the values in ``operands`` that are defined outside of the body.

        ``inside`` has the body's block and operations.
        """
        for value in operands:
            if value not in self.slots and value.owner not in inside:
                self.slots[value] = len(self.slots)
                self.captured.append(value)

    def _constants(self, operations: Sequence[ir.Operation]) -> None:
        """Assign slots to the body's constants, which are emitted only once, before the loops."""
        for operation in operations:
            if operation.name == "arith.constant":
                self.slots[operation.results[0]] = len(self.slots)
                self.captured.append(operation)

    def _read(self, operation: ir.Operation) -> None:
        if operation.name == "arith.constant":
            return
        first = len(self.slots)
        for position, result in enumerate(operation.results):
            self.slots[result] = first + position
        if operation.name == "linalg.index":
            self.indices.append((first, ir.IntegerAttr(operation.attributes["dim"]).value))
        self.instructions.append(
            Instruction(
                operation,
                operation.name,
                tuple(self.slots[value] for value in operation.operands),
                tuple(self.slots[value] for value in operation.results),
                tuple(result.type for result in operation.results),
                _relaxed(operation.name, dict(operation.attributes), self._contract),
            )
        )

    @property
    def gathers(self) -> bool:
        """Whether the body reads elements of captured buffers at computed indices."""
        return any(instruction.name == LOAD for instruction in self.instructions)

    @property
    def has_long_chains(self) -> bool:
        """Whether the body has transcendental functions, but does not gather.

        Such a function becomes a long chain of operations that depend on each other.
        """
        names = [instruction.name for instruction in self.instructions]
        return LOAD not in names and any(map(_is_transcendental, names))

    @property
    def vectorizable(self) -> bool:
        """Whether every operation also exists on vectors and is safe on masked-off lanes.

        A gather counts as safe here. Whether a gather can be vectorized depends on the loop whose
        iterations are the lanes (``gathers.varying_slots``).
        """
        return all(
            instruction.name in ("linalg.index", LOAD)
            or (
                instruction.name.startswith(("arith.", "math."))
                and instruction.name.removeprefix("arith.") not in _INTEGER_DIVISIONS
                and all(_is_lane_type(t) for t in instruction.types)
            )
            for instruction in self.instructions
        )

    @property
    def work(self) -> float:
        """Estimated cost of the body per iteration, in multiply-adds; at least 0.5.

        For example, a division costs 8 and an exponential 20.
        """
        names = [instruction.name for instruction in self.instructions]
        total = _work_of(self.instructions)
        return max(0.5, total - (1.0 if "arith.mulf" in names and "arith.addf" in names else 0.0))

    def shared_work(self, varying: Container[int]) -> float:
        """Return the estimated cost of the operations whose results are the same in all lanes.

        The cost is in multiply-adds per iteration. ``varying`` has the slots of values that differ
        between lanes.
        """
        return _work_of(
            [each for each in self.instructions if not any(r in varying for r in each.results)]
        )

    def uses(self, slot: int) -> int:
        """Return the number of uses of a slot by the body's operations and its yielded values."""
        used = sum(instruction.operands.count(slot) for instruction in self.instructions)
        return used + self.yields.count(slot)

    @cached_property
    def combiners(self) -> list[Combiner] | None:
        """The combiner of each output's reduction, with the permitted fast-math flags.

        None if the combiner of an output is unknown, or if a combiner is on booleans.
        """
        found = find_combiners(self._generic)
        # Boolean lanes, stored as bytes, would need a comparison and an extension in each step.
        if found is None or any(combiner.is_boolean for combiner in found):
            return None
        return [
            replace(c, attributes=_relaxed(c.name, c.attributes, self._contract)) for c in found
        ]

    def emit(
        self, values: Values, lanes: int, broadcast: Broadcast, mask: Mask = _ALL_LANES
    ) -> list[ir.Value]:
        """Emit the body's operations and return the values that the body yields.

        Args:
            values: the values by slot. The caller sets the slots of block arguments, captured
                values and ``linalg.index`` results; this function sets the slots of all other
                results.
            lanes: count of lanes of the vectors; an operation with a vector operand is emitted on
                vectors of this many lanes.
            broadcast: function that broadcasts a value to all lanes; applied to each operand of an
                operation that is emitted on vectors.
            mask: the valid lanes; gathers read no elements for invalid lanes.
        """
        for instruction in self.instructions:
            if instruction.name == "linalg.index":
                continue
            operands = _known(values, instruction.operands)
            types: Sequence[ir.Type] = instruction.types
            if instruction.name == LOAD:
                values[instruction.results[0]] = memory.load_element(operands, lanes, mask)
                continue
            if any(isinstance(operand.type, ir.VectorType) for operand in operands):
                operands = [broadcast(operand) for operand in operands]
                types = [ir.VectorType.get([lanes], t) for t in types]
            results = self._emit_one(instruction, types, operands, values)
            for slot, value in zip(instruction.results, results, strict=True):
                values[slot] = value
        return _known(values, self.yields)

    def _emit_one(
        self,
        instruction: Instruction,
        types: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        values: Values,
    ) -> list[ir.Value]:
        if not list(instruction.operation.regions):
            created = ir.Operation.create(
                instruction.name,
                results=list(types),
                operands=operands,
                attributes=instruction.attributes,
            )
            return list(created.results)
        clone = instruction.operation.clone().operation
        known = ((value, values[slot]) for value, slot in self.slots.items())
        rename_operands(clone, {old: new for old, new in known if new is not None})
        return list(clone.results)


def _work_of(instructions: Iterable[Instruction]) -> float:
    total = 0.0
    for instruction in instructions:
        if _is_transcendental(instruction.name):
            total += _TRANSCENDENTAL_WORK
        elif instruction.name != "linalg.index":
            total += _WORK.get(instruction.name, 1.0)
    return total


def _is_transcendental(name: str) -> bool:
    return name.startswith("math.") and name not in _CHEAP_MATH and name not in _WORK


def _known(values: Values, slots: Sequence[int]) -> list[ir.Value]:
    """Return the values of ``slots``, all of which must have been computed (are not None)."""
    found = [value for slot in slots if (value := values[slot]) is not None]
    assert len(found) == len(slots), "a body uses a value that was not computed"
    return found


def _relaxed(
    name: str, attributes: Mapping[str, ir.Attribute], contract: bool
) -> dict[str, ir.Attribute]:
    """Return the attributes of operation ``name``, with a fast-math flag added if one is permitted.

    The added flag is ``nsz`` for operations in ``_UNSIGNED_ZEROS``, and ``contract`` for operations
    in ``_CONTRACTED`` if the argument ``contract`` is true. An operation that already has flags
    gets no other flag.
    """
    flags = _fastmath(name, contract)
    given = attributes.get("fastmath")
    if not flags or (given is not None and "none" not in str(given)):
        return dict(attributes)
    return {**attributes, "fastmath": ir.Attribute.parse(f"#arith.fastmath<{flags}>")}


def _fastmath(name: str, contract: bool) -> str:
    if name in _UNSIGNED_ZEROS:
        return "nsz"
    return "contract" if contract and name in _CONTRACTED else ""


def _is_lane_type(element: ir.Type) -> bool:
    return isinstance(element, ir.FloatType | ir.IntegerType | ir.IndexType)


def select(mask: ir.Value | None, when_true: ir.Value, when_false: ir.Value) -> ir.Value:
    """Emit a lane-wise select between two values; return ``when_true`` if ``mask`` is None."""
    return when_true if mask is None else arith.select(mask, when_true, when_false)
