"""Prints ``rtask.program`` and the operations inside it in the readable form (custom assembly)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rammer_mlir.dialects.rtask.assembly import tokens
from rammer_mlir.dialects.rtask.assembly.generic_op import (
    GenericOp,
    Irregular,
    operand_types,
    read_list,
    read_op,
)

_BEGIN = '"rtask.{}"() ({{'
_END = "}) "
_RUN = '"rtask.run"'
_BARRIER = '"rtask.barrier"'

_STRING = re.compile(tokens.STRING)
_SYMBOL = re.compile(tokens.SYMBOL)
_WAITS = re.compile(r"array<i64(?:: (\d+, \d+(?:, \d+, \d+)*+))?>")


def print_program(lines: Sequence[str], begin: int, names: Mapping[int, str]) -> tuple[int, str]:
    """Return the count of an rProgram's lines in the generic form, and its readable form.

    ``lines`` are the lines of the module in the generic form; ``begin`` is the index of the
    rProgram's first line. ``names`` has the name of the model's node for each ``rtask.run``, by the
    index of the run's line.

    Raises:
        Irregular: if any operation inside has no readable form. The caller then prints the whole
            rProgram in the generic form.
    """
    printer = _ProgramPrinter(lines, begin, names)
    text = printer.program()
    return printer.number - begin, text


class _ProgramPrinter:
    def __init__(self, lines: Sequence[str], begin: int, names: Mapping[int, str]) -> None:
        self.number = begin
        self._lines = lines
        self._names = names
        self._buffers: dict[str, str] = {}
        self._printed: list[str] = []

    def program(self) -> str:
        """Move beyond the rProgram at the current line, and return its readable form."""
        indent = self._begin("program")
        while self._next().startswith(f'{indent}  "rtask.veu"'):
            self._veu()
        op = self._end(indent)
        device, veus = op.value("device", _STRING), op.integer("num_veus")
        others = op.others(("device", "num_veus"))
        attributes = f" attributes {others}" if others else ""
        head = f"rtask.program on {device} veus({veus}){self._buffer_list(indent)}{attributes}"
        return "\n".join([f"{indent}{head} {{", *self._printed, f"{indent}}}{op.location}"])

    def _veu(self) -> None:
        head = len(self._printed)
        indent = self._begin("veu")
        while not self._next().startswith(f"{indent}}}"):
            self._printed.append(f"{indent}  {self._record(self._next().lstrip())}")
            self.number += 1
        op = self._end(indent)
        others = op.others(("id",))
        attributes = f" attributes {others}" if others else ""
        self._printed.insert(head, f"{indent}veu {op.integer('id')}{attributes} {{")
        self._printed.append(f"{indent}}}{op.location}")

    def _record(self, line: str) -> str:
        if line.startswith(_RUN):
            return self._run(read_op(line[len(_RUN) :]))
        if line.startswith(_BARRIER):
            return _wait(read_op(line[len(_BARRIER) :]))
        raise Irregular

    def _run(self, op: GenericOp) -> str:
        values = op.operands.split(", ") if op.operands else []
        self._buffers.update(zip(values, operand_types(op.type), strict=True))
        name = self._names.get(self.number, "")
        return _with_rest(
            f"run {op.value('kernel', _SYMBOL)}{_rtasks(op)} of {op.integer('operator_id')} "
            f"{name}{' ' if name else ''}({op.operands})",
            op,
            ("kernel", "operator_id", "first", "count"),
        )

    def _buffer_list(self, indent: str) -> str:
        if not self._buffers:
            return ""
        listed = (f"\n{indent}    {name}: {kind}" for name, kind in self._buffers.items())
        return f" buffers({','.join(listed)})"

    def _next(self) -> str:
        if self.number >= len(self._lines):
            raise Irregular
        return self._lines[self.number]

    def _begin(self, name: str) -> str:
        """Move beyond the first line of operation ``name``, and beyond the label of an empty block.

        Return the indentation of the first line.

        Raises:
            Irregular: if the readable form cannot represent these lines.
        """
        line = self._next()
        indent = line[: len(line) - len(line.lstrip())]
        if line != indent + _BEGIN.format(name):
            raise Irregular
        self.number += 1
        empty = self._next() == f"{indent}^bb0:"
        if empty != self._lines[self.number + empty].startswith(f"{indent}}}"):
            raise Irregular  # a label before operations, or a region without a block
        self.number += empty
        return indent

    def _end(self, indent: str) -> GenericOp:
        line = self._next()
        if not line.startswith(indent + _END):
            raise Irregular
        self.number += 1
        return read_op(f"() {line[len(indent + _END) :]}")


def _rtasks(op: GenericOp) -> str:
    first, count = int(op.integer("first")), int(op.integer("count"))
    return f"[{first}]" if count == 1 else f"[{first}..{first + count - 1}]"


def _wait(op: GenericOp) -> str:
    given = op.value("waits", _WAITS)
    numbers = [] if given.startswith("array") else read_list(given)
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    listed = ", ".join(f"veu {veu} @ {order}" for veu, order in pairs)
    return _with_rest(f"wait {listed}".rstrip(), op, ("waits",))


def _with_rest(text: str, op: GenericOp, known: Sequence[str]) -> str:
    """Return ``text`` with the remaining attributes and the location of ``op`` appended.

    ``text`` is the start of the readable form of ``op``, a run or a barrier. ``known`` lists the
    keys of the attributes that ``text`` already contains.
    """
    others = op.others(known)
    return f"{text}{' ' if others else ''}{others}{op.location}"
