"""Draws random small programs with proofs; some are correct, others break a rule of the checker."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.checker.files import Json


@dataclass
class Drawn:
    """A drawn program with its proof.

    Attributes:
        program: content of ``program.json``.
        proof: content of ``proof.json``.
        boxes: numbers of ``boxes.bin``: offsets and sizes of the boxes of all accesses.
        sizes: bytes of each buffer, by "input", "output", "constant" and "arena".
    """

    program: Json
    proof: Json
    boxes: list[int]
    sizes: dict[str, list[int]]


@dataclass
class Drawer:
    """Draws a program of a few rOperators on a few values of 12 to 24 bytes.

    Attributes:
        rng: the generator of all random choices.
        boxes: offsets and sizes of the boxes of all accesses.
        values: the values, as in the proof.
        kernels: the rKernels, as in the proof.
        operators: the rOperators, as in the program.
        given: for each rOperator, the indices of its values.
    """

    rng: random.Random
    boxes: list[int] = field(default_factory=list[int])
    values: list[list[Any]] = field(default_factory=list[list[Any]])
    kernels: list[list[Any]] = field(default_factory=list[list[Any]])
    operators: list[list[Any]] = field(default_factory=list[list[Any]])
    given: list[list[int]] = field(default_factory=list[list[int]])

    def draw(self) -> Drawn:
        """Draw a program."""
        rng = self.rng
        self.slots: list[list[Any]] = []
        self.careful = rng.random() < 0.8
        inout = rng.random() < 0.15
        self.value("inout" if inout else "input", 0)
        self.value("constant", 0)
        places = 0
        for _ in range(rng.randint(1, 4)):
            self.value("intermediate", places)
            places += rng.choice((24, 24, 24, 24, 8, 0))
        self.value("output", 0)
        made = [n for n, value in enumerate(self.values) if value[1] in ("intermediate", "output")]
        for value in made:
            self.operator(value, rng.sample(range(value), rng.randint(0, min(2, value))))
            if rng.random() < 0.15:
                self.update(rng.choice([value, 0 if inout else value]))
        proof = {
            "values": self.values,
            "kernels": self.kernels,
            "operators": [
                [
                    o[1],
                    [
                        [v, self.slots[s][2] - self.values[v][2][2]]
                        for s, v in zip(o[2], vs, strict=True)
                    ],
                ]
                for o, vs in zip(self.operators, self.given, strict=True)
            ],
        }
        program = {
            "slots": self.slots,
            "kernels": [[f"k{n}", len(given)] for n, given in enumerate(self.given)],
            "operators": self.operators,
            "launches": [self.schedule()],
        }
        sizes = {"input": [self.values[0][3]], "constant": [64]}
        outputs = [value[3] for value in self.values if value[1] == "output"]
        return Drawn(
            program, proof, self.boxes, sizes | {"output": outputs, "arena": [places + 24]}
        )

    def value(self, kind: str, place: int) -> None:
        """Add a value of random size; ``place`` is its byte offset in its memory.

        ``kind`` is ``input``, ``inout``, ``constant``, ``intermediate`` or ``output``.
        """
        base = {"intermediate": "arena", "inout": "input"}.get(kind, kind)
        size = self.rng.choice((12, 24))
        self.values.append([f"{kind}{len(self.values)}", kind, [base, 0, place], size])

    def operator(self, value: int, reads: list[int]) -> None:
        """Add an rOperator that writes a value in parts, and reads other values."""
        rng = self.rng
        tasks = rng.choice((1, 2, 3))
        writes = [self.parts(tasks, 0, self.values[value][3])]
        read = [self.read(tasks, n + 1, self.values[v][3]) for n, v in enumerate(reads)]
        if rng.random() < 0.07 and not self.careful:
            read.append(self.read(tasks, 0, self.values[value][3]))
        self.add([tasks, read, writes, []], [value, *reads])

    def update(self, value: int) -> None:
        """Add an rOperator that updates a value, or writes it once more."""
        tasks = self.rng.choice((1, 2))
        touched = [self.read(tasks, 0, self.values[value][3])]
        wrong = not self.careful and self.rng.random() < 0.3
        self.add([tasks, [], touched, []] if wrong else [tasks, [], [], touched], [value])

    def add(self, kernel: list[Any], operands: list[int]) -> None:
        """Add an rOperator with a new rKernel.

        ``kernel`` is the rKernel as in the proof: its number of rTasks, reads, writes and updates.
        ``operands`` are the indices of the rOperator's values. Unless the whole program is drawn
        carefully (``self.careful``), a pointer of the rOperator may be 4 bytes off.
        """
        slots: list[int] = []
        for value in operands:
            base, index, offset = self.values[value][2]
            off = 0 if self.careful or self.rng.random() < 0.95 else self.rng.choice((-4, 4))
            slots.append(len(self.slots))
            self.slots.append([base, index, offset + off])
        self.operators.append([f"o{len(self.operators)}", len(self.kernels), slots])
        self.kernels.append(kernel)
        self.given.append(operands)

    def parts(self, tasks: int, argument: int, size: int) -> list[Any]:
        """Divide a value among ``tasks`` rTasks; return the rKernel's access to the value.

        The parts are columns of a matrix of three columns, or ranges of the value's ``size`` bytes.
        """
        rows, last = size // 12, 0 if self.rng.random() < 0.95 else 1
        if self.rng.random() < 0.5:
            cuts = sorted(self.rng.choices(range(4), k=tasks - 1))
            columns = list(zip([0, *cuts], [*cuts, 3 - last], strict=True))
            boxes = [(4 * a, [rows, max(b - a, 0)]) for a, b in columns]
            return self.access(argument, 4, boxes, [12, 4])
        cuts = sorted(self.rng.choices(range(size // 2 + 1), k=tasks - 1))
        stretches = zip([0, *cuts], [*cuts, size // 2 - last], strict=True)
        return self.access(argument, 2, [(2 * a, [max(b - a, 0)]) for a, b in stretches], [2])

    def read(self, tasks: int, argument: int, size: int) -> list[Any]:
        """Draw a box for each of ``tasks`` rTasks; return the rKernel's access to the boxes.

        The boxes are inside of a value of ``size`` bytes.
        """
        rng, strides = self.rng, self.rng.choice(([12, 4], [4, 12], [2, 4], [6], [-4, 12], [0, 4]))
        boxes: list[tuple[int, list[int]]] = []
        width = rng.choice((1, 2, 4))
        for _ in range(tasks):
            sizes = [rng.randint(1, 3) for _ in strides]
            spans = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
            low, high = sum(min(s, 0) for s in spans), sum(max(s, 0) for s in spans) + width
            room = size - (high - low)
            if room < 0:
                sizes, low, room = [1 for _ in strides], 0, size - width
            boxes.append((rng.randint(0, room) - low, sizes))
        return self.access(argument, width, boxes, list(strides))

    def access(
        self, argument: int, width: int, boxes: list[tuple[int, list[int]]], strides: list[int]
    ) -> list[Any]:
        """Append boxes to ``self.boxes``; return the rKernel's access to them, as in the proof.

        Args:
            argument: index of the accessed argument of the rKernel.
            width: bytes of an element.
            boxes: for each rTask, the byte offset of the box, and its size in each dimension.
            strides: distance of adjacent elements in bytes, in each dimension.
        """
        offsets = len(self.boxes)
        self.boxes += [offset for offset, _ in boxes]
        sizes = len(self.boxes)
        self.boxes += [number for _, size in boxes for number in size]
        return [argument, width, offsets, sizes, strides]

    def schedule(self) -> list[list[Any]]:
        """Return a random schedule: each vEU's list of records and waits, as in ``program.json``.

        Most rTasks wait for all earlier rOperators, a few do not.
        """
        rng = self.rng
        veus: list[list[Any]] = [[] for _ in range(rng.choice((1, 2, 2, 3)))]
        steps = [0] * len(veus)
        lazy = rng.choice((0.0, 0.0, 0.1, 0.5))
        for operator, (_, kernel, _) in enumerate(self.operators):
            before = list(steps)
            tasks = self.kernels[kernel][0]
            first = 0
            while first < tasks:
                count = rng.randint(1, tasks - first)
                veu = rng.randrange(len(veus))
                waits = [[v, s] for v, s in enumerate(before) if v != veu and s]
                if waits and rng.random() >= lazy:
                    veus[veu].append(waits)
                veus[veu].append([operator, first, count])
                steps[veu] += count
                first += count
        self._spoil(veus)
        return veus

    def _spoil(self, veus: list[list[Any]]) -> None:
        """Sometimes shuffle a vEU's records, change a wait, or duplicate a record."""
        rng = self.rng
        if rng.random() < 0.15:
            veu = rng.choice(veus)
            rng.shuffle(veu)
        waits = [w for veu in veus for r in veu if isinstance(r[0], list) for w in r]
        if waits and rng.random() < 0.2:
            rng.choice(waits)[rng.randrange(2)] += rng.choice((-1, 1))
        if rng.random() < 0.03:
            veu = rng.choice(veus)
            veu.append(rng.choice([r for v in veus for r in v]))
