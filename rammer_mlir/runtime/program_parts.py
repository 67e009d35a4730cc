"""Writes and reads a program's records and proof in an artifact (see ``docs/program.md``).

- ``program.json`` has a list for each record. The list of consecutive rTasks is ``[operator, first,
  count]``: index of the rOperator, index of its first rTask, number of rTasks. The list of a
  barrier is ``[[vEU, steps], ...]``: vEUs to wait for, and the number of rTasks that each must have
  completed.
- ``proof.json`` has the location of each value in memory, and the accesses of rTasks.
- ``boxes.bin`` is an int64 array with the offsets and sizes of the boxes of all accesses. An access
  in ``proof.json`` has the indices of its offsets and sizes in this array.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.proof import BoxAccess, Int64Array, KernelAccesses, Proof, ValuePlace
from rammer_mlir.programs.records import (
    BarrierRecord,
    KernelSymbol,
    Launch,
    Operator,
    Program,
    Record,
    RunRecord,
    Slot,
)
from rammer_mlir.runtime.artifact_parts import Members

_PROGRAM, _PROOF, _BOXES = "program.json", "proof.json", "boxes.bin"

_EXCLUSIVE = "exclusive"
"""Optional entry of the proof: rKernels whose rTasks must run alone on the device."""


def write_program(program: Program, proof: Proof) -> dict[str, bytes]:
    """Return the archive members that contain a program's records and its proof.

    The keys are the names of the members (``program.json``, ``proof.json``, ``boxes.bin``), the
    values their content.
    """
    boxes = _Boxes()
    described = {
        "values": [[v.name, v.kind, astuple(v.place), v.num_bytes] for v in proof.values],
        "kernels": [_write_accesses(kernel, boxes) for kernel in proof.kernels],
        "operators": [
            (operator.kernel, _write_operands(operator, values, proof))
            for operator, values in zip(program.operators, proof.operands, strict=True)
        ],
        **({_EXCLUSIVE: sorted(proof.exclusive)} if proof.exclusive else {}),
    }
    return {
        _PROGRAM: _compact(_write_records(program)),
        _PROOF: _compact(described),
        _BOXES: boxes.data(),
    }


def _write_operands(
    operator: Operator, values: Sequence[int], proof: Proof
) -> list[tuple[int, int]]:
    """Return, for each buffer of an rOperator, a value number and an offset in bytes.

    ``values`` has the value number of each buffer, an index in ``proof.values``. The offset is the
    distance from the first byte of the value in memory to the address that the rKernel gets.
    """
    return [
        (value, slot.offset - proof.values[value].place.offset)
        for slot, value in zip(operator.slots, values, strict=True)
    ]


def read_program(members: Members) -> Program:
    """Return the program in an artifact: rKernels, rOperators, and the records of all vEUs."""
    found = json.loads(members.read(_PROGRAM))
    slots = [Slot(*slot) for slot in found["slots"]]
    return Program(
        kernels=tuple(KernelSymbol(*kernel) for kernel in found["kernels"]),
        operators=tuple(
            Operator(name, kernel, tuple(slots[number] for number in numbers))
            for name, kernel, numbers in found["operators"]
        ),
        launches=tuple(
            Launch(tuple(tuple(map(_read_record, records)) for records in veus))
            for veus in found["launches"]
        ),
    )


def read_proof(members: Members) -> Proof:
    """Return the proof of a program in an artifact."""
    found = json.loads(members.read(_PROOF))
    boxes = np.frombuffer(members.read(_BOXES), np.int64)
    exclusive = frozenset[int](found.get(_EXCLUSIVE, ()))
    return Proof(
        values=tuple(
            ValuePlace(name, kind, Slot(*place), num_bytes)
            for name, kind, place, num_bytes in found["values"]
        ),
        kernels=tuple(
            _read_accesses(kernel, boxes, is_exclusive=number in exclusive)
            for number, kernel in enumerate(found["kernels"])
        ),
        operands=tuple(tuple(value for value, _ in operands) for _, operands in found["operators"]),
    )


def _compact(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _write_records(program: Program) -> dict[str, object]:
    slots = {slot: n for n, slot in enumerate(program.slots)}
    return {
        "slots": [astuple(slot) for slot in slots],
        "kernels": [(kernel.name, kernel.num_arguments) for kernel in program.kernels],
        "operators": [(o.name, o.kernel, [slots[s] for s in o.slots]) for o in program.operators],
        "launches": [
            [list(map(_write_record, records)) for records in launch.veus]
            for launch in program.launches
        ],
    }


def _write_record(record: Record) -> Sequence[object]:
    if isinstance(record, BarrierRecord):
        return record.waits
    return record.operator, record.first, record.count


def _read_record(words: Sequence[Any]) -> Record:
    if words and not isinstance(words[0], list):
        return RunRecord(*words)
    return BarrierRecord(tuple((veu, steps) for veu, steps in words))


@dataclass
class _Boxes:
    """An int64 array that collects the offsets and sizes of boxes, and stores equal data once.

    Attributes:
        parts: the pieces of the array, as bytes, in order.
        size: the count of int64 numbers in the array.
        known: for each piece, by its bytes, the index in the array where it begins.
    """

    parts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    known: dict[bytes, int] = field(default_factory=dict[bytes, int])

    def add(self, numbers: Int64Array) -> int:
        """Return the index where ``numbers`` begin in the array, appending them if they are new."""
        data = np.ascontiguousarray(numbers, np.int64).tobytes()
        if data not in self.known:
            self.known[data] = self.size
            self.parts.append(data)
            self.size += len(data) // 8
        return self.known[data]

    def data(self) -> bytes:
        return b"".join(self.parts)


def _write_accesses(kernel: KernelAccesses, boxes: _Boxes) -> list[object]:
    kinds = (kernel.reads, kernel.writes, kernel.updates)
    return [kernel.num_rtasks, *([_write_box(a, boxes) for a in kind] for kind in kinds)]


def _write_box(access: BoxAccess, boxes: _Boxes) -> list[object]:
    offsets, sizes = boxes.add(access.offsets), boxes.add(access.sizes)
    return [access.argument, access.element_bytes, offsets, sizes, access.strides]


def _read_accesses(
    found: Sequence[Any], boxes: NDArray[np.int64], *, is_exclusive: bool
) -> KernelAccesses:
    num_rtasks, *kinds = found
    reads, writes, updates = (
        tuple(_read_box(box, num_rtasks, boxes) for box in kind) for kind in kinds
    )
    return KernelAccesses(num_rtasks, reads, writes, updates, is_exclusive)


def _read_box(found: Sequence[Any], num_rtasks: int, boxes: NDArray[np.int64]) -> BoxAccess:
    argument, element_bytes, offsets, sizes, strides = found
    rank = len(strides)
    return BoxAccess(
        argument=argument,
        element_bytes=element_bytes,
        offsets=boxes[offsets : offsets + num_rtasks],
        sizes=boxes[sizes : sizes + num_rtasks * rank].reshape(num_rtasks, rank),
        strides=tuple(strides),
    )
