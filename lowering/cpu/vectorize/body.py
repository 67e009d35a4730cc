"""The body of a ``linalg.generic``, read once and re-created on scalars or on vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rammer_mlir.bindings import arith, ir, vector

# Liberties that the vectoriser takes: a multiply-add in a reduction may round once, and the sign
# of a zero that a maximum returns is open (x86 needs five instructions for -0 < +0, two for NaN).
_CONTRACTED = ("arith.mulf", "arith.addf", "arith.subf")
_UNSIGNED_ZEROS = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")

# Combiners whose lanes may accumulate separately: operation -> kind of vector.reduction.
_REDUCTION_KINDS = {
    "arith.addf": "add",
    "arith.addi": "add",
    "arith.mulf": "mul",
    "arith.muli": "mul",
    "arith.maximumf": "maximumf",
    "arith.minimumf": "minimumf",
    "arith.maxnumf": "maxnumf",
    "arith.minnumf": "minnumf",
    "arith.maxsi": "maxsi",
    "arith.minsi": "minsi",
    "arith.maxui": "maxui",
    "arith.minui": "minui",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
}

# maxnum and minnum ignore a NaN; adding -0.0 keeps the sign of a zero.
_FLOAT_IDENTITIES = {
    "add": -0.0,
    "mul": 1.0,
    "maximumf": -math.inf,
    "minimumf": math.inf,
    "maxnumf": math.nan,
    "minnumf": math.nan,
}

# Dividing a lane that a mask disables would trap, and x86 has no vector division of integers.
_INTEGER_DIVISIONS = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")

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
    """One operation of a body. Operands and results are slots in a list of values."""

    operation: Any
    name: str
    operands: tuple[int, ...]
    types: tuple[Any, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Combiner:
    """A reduction operation: its name, its ``vector.reduction`` kind and its attributes."""

    name: str
    kind: str
    attributes: dict[str, Any]

    def combine(self, left: Any, right: Any) -> Any:
        """Emit the operation on two accumulators."""
        return _create(self.name, [left.type], [left, right], self.attributes)[0]

    def combine_all(self, parts: list[Any]) -> Any:
        """Emit the operation on a list of accumulators, as a balanced tree."""
        while len(parts) > 1:
            pairs = [self.combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[len(pairs) * 2 :]
        return parts[0]

    def identity(self, element: Any) -> Any:
        """Emit the scalar that leaves every other operand as it is."""
        if isinstance(element, ir.FloatType):
            return arith.constant(element, _FLOAT_IDENTITIES[self.kind])
        bits = 64 if isinstance(element, ir.IndexType) else element.width
        signed_max = (1 << (bits - 1)) - 1
        value = {"mul": 1, "and": -1, "minui": -1, "maxsi": -signed_max - 1, "minsi": signed_max}
        return arith.constant(element, value.get(self.kind, 0))

    def reduce(self, accumulator: Any) -> Any:
        """Emit the reduction of a vector to a scalar, in any order."""
        kind = ir.Attribute.parse(f"#vector.kind<{self.kind}>")
        element = accumulator.type.element_type
        if self.name in ("arith.addf", "arith.mulf"):
            fastmath = ir.Attribute.parse("#arith.fastmath<reassoc>")
            return vector.reduction(element, kind, accumulator, fastmath=fastmath)
        return vector.reduction(element, kind, accumulator)


class Body:
    """A parsed body: block arguments take the first slots, then captured values, then results."""

    def __init__(self, block: Any, contract: bool) -> None:
        self.slots: dict[Any, int] = {}
        self.captured: list[Any] = []
        self.indices: list[tuple[int, int]] = []  # slot of a linalg.index, its dimension
        self.instructions: list[Instruction] = []
        self.arguments = len(block.arguments)
        for argument in block.arguments:
            self.slots[argument] = len(self.slots)
        *operations, terminator = [o.operation for o in block.operations]
        inside = set(operations)
        for operation in (*operations, terminator):
            self._capture(operation, {*inside, block})
        self._constants(operations)
        for operation in operations:
            self._read(operation, contract)
        self.yields = tuple(self.slots[value] for value in terminator.operands)

    def _capture(self, operation: Any, inside: set[Any]) -> None:
        """Give slots to the values from outside that an operation uses."""
        for value in operation.operands:
            if value not in self.slots and value.owner not in inside:
                self.slots[value] = len(self.slots)
                self.captured.append(value)

    def _constants(self, operations: list[Any]) -> None:
        """Constants of the body are emitted once, before the loops."""
        for operation in operations:
            if operation.name == "arith.constant":
                self.slots[operation.results[0]] = len(self.slots)
                self.captured.append(operation)

    def _read(self, operation: Any, contract: bool) -> None:
        if operation.name == "arith.constant":
            return
        first = len(self.slots)
        for position, result in enumerate(operation.results):
            self.slots[result] = first + position
        if operation.name == "linalg.index":
            self.indices.append((first, operation.attributes["dim"].value))
        attributes = dict(operation.attributes)
        flags = _fastmath(operation.name, contract)
        if flags and "none" in str(attributes.get("fastmath", "none")):
            attributes["fastmath"] = ir.Attribute.parse(f"#arith.fastmath<{flags}>")
        self.instructions.append(
            Instruction(
                operation,
                operation.name,
                tuple(self.slots[value] for value in operation.operands),
                tuple(result.type for result in operation.results),
                attributes,
            )
        )

    @property
    def vectorizable(self) -> bool:
        """Tell whether every operation also exists on vectors and is safe on unused lanes."""
        return all(
            instruction.name == "linalg.index"
            or (
                instruction.name.startswith(("arith.", "math."))
                and instruction.name.removeprefix("arith.") not in _INTEGER_DIVISIONS
                and all(_is_lane_type(t) for t in instruction.types)
            )
            for instruction in self.instructions
        )

    @property
    def work(self) -> float:
        """Estimate the arithmetic operations per point; a multiply-add counts once."""
        total = 0.0
        for instruction in self.instructions:
            if instruction.name.startswith("math.") and instruction.name not in _CHEAP_MATH:
                total += _WORK.get(instruction.name, _TRANSCENDENTAL_WORK)
            elif instruction.name != "linalg.index":
                total += _WORK.get(instruction.name, 1.0)
        names = [instruction.name for instruction in self.instructions]
        return max(0.5, total - (1.0 if "arith.mulf" in names and "arith.addf" in names else 0.0))

    def uses(self, slot: int) -> int:
        """Count the uses of a slot."""
        used = sum(instruction.operands.count(slot) for instruction in self.instructions)
        return used + self.yields.count(slot)

    def combiners(self, outputs: int) -> list[Combiner] | None:
        """Return the combiner of each output if all are recognised, else None."""
        found: list[Combiner] = []
        for number in range(outputs):
            accumulator = self.arguments - outputs + number
            combiner = self._combiner(accumulator, self.yields[number])
            if combiner is None:
                return None
            found.append(combiner)
        return found

    def _combiner(self, accumulator: int, result: int) -> Combiner | None:
        for instruction in self.instructions:
            if self.slots[instruction.operation.results[0]] != result:
                continue
            kind = _REDUCTION_KINDS.get(instruction.name)
            alone = self.uses(accumulator) == 1 and accumulator in instruction.operands
            if kind is None or not alone or self.uses(result) != 1:
                return None
            return Combiner(instruction.name, kind, instruction.attributes)
        return None

    def emit(self, values: list[Any], lanes: int, broadcast: Callable[[Any], Any]) -> list[Any]:
        """Emit the body on a list of slot values and return what it yields.

        ``values`` holds the block arguments, captured values and, at its place, each
        ``linalg.index``; operations with a vector operand are emitted on ``lanes`` lanes.
        """
        for instruction in self.instructions:
            if instruction.name == "linalg.index":
                continue
            operands = [values[slot] for slot in instruction.operands]
            types: Sequence[Any] = instruction.types
            if any(isinstance(operand.type, ir.VectorType) for operand in operands):
                operands = [broadcast(operand) for operand in operands]
                types = [ir.VectorType.get([lanes], t) for t in types]
            results = self._emit_one(instruction, types, operands, values)
            for result, value in zip(instruction.operation.results, results, strict=True):
                values[self.slots[result]] = value
        return [values[slot] for slot in self.yields]

    def _emit_one(
        self, instruction: Instruction, types: Sequence[Any], operands: list[Any], values: list[Any]
    ) -> list[Any]:
        if not list(instruction.operation.regions):
            return _create(instruction.name, types, operands, instruction.attributes)
        clone = instruction.operation.clone()
        _remap(clone, {value: values[slot] for value, slot in self.slots.items()})
        return list(clone.results)


def _create(
    name: str, types: Sequence[Any], operands: Sequence[Any], attributes: dict[str, Any]
) -> list[Any]:
    operation = ir.Operation.create(
        name, results=list(types), operands=list(operands), attributes=attributes
    )
    return list(operation.results)


def _remap(operation: Any, mapping: dict[Any, Any]) -> None:
    """Replace the operands of a cloned operation and of everything nested in it."""
    for number, operand in enumerate(operation.operands):
        if mapping.get(operand) is not None:
            operation.operands[number] = mapping[operand]
    for region in operation.regions:
        for block in region.blocks:
            for nested in block.operations:
                _remap(nested.operation, mapping)


def _fastmath(name: str, contract: bool) -> str:
    if name in _UNSIGNED_ZEROS:
        return "nsz"
    return "contract" if contract and name in _CONTRACTED else ""


def _is_lane_type(element: Any) -> bool:
    return isinstance(element, ir.FloatType | ir.IntegerType | ir.IndexType)


def select(mask: Any, when_true: Any, when_false: Any) -> Any:
    """Emit a lane-wise choice; without a mask, the first value."""
    return when_true if mask is None else arith.select(mask, when_true, when_false)
