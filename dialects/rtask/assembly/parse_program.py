"""Parses the readable form (custom assembly) of ``rtask.program`` and the operations inside it."""

from __future__ import annotations

from rammer_mlir.dialects.rtask.assembly import clauses
from rammer_mlir.dialects.rtask.assembly.cursor import STRING, SYMBOL, VALUE, Cursor
from rammer_mlir.dialects.rtask.assembly.output import Output
from rammer_mlir.errors import AssemblyError

_NO_RECORDS = "^bb0:"  # MLIR's parser creates no block for an empty region without a label


def parse_program(cursor: Cursor, output: Output) -> None:
    """Parse ``on "DEVICE" veus(N) [buffers(...)] [attributes {...}] { VEU... } [loc(...)]``.

    Brackets mean optional. Append the generic form to ``output``.

    Raises:
        AssemblyError: if the text has another form.
    """
    output.write(cursor.line(), '"rtask.program"() ({')
    cursor.expect("on")
    device = cursor.take(STRING, "the name of a device in quotes")
    cursor.expect("veus")
    attributes = f"device = {device}, num_veus = {clauses.in_parentheses(cursor)} : i64"
    records = _Records(cursor, output, _buffers(cursor))
    attributes += clauses.further_attributes(cursor, "attributes")
    cursor.expect("{")
    if cursor.comes("}"):
        output.write(cursor.line(), _NO_RECORDS)
    while not cursor.accept("}"):
        records.parse_veu()
    end = f"}}) {{{attributes}}} : () -> ()"
    output.write(cursor.line(), end + clauses.location(cursor))


def _buffers(cursor: Cursor) -> dict[str, str]:
    """Parse ``buffers(%a: TYPE, ...)`` if it comes next.

    Return the type of each value by the value's name; an empty dictionary if there is no such
    clause.
    """
    found: dict[str, str] = {}
    if not cursor.accept("buffers"):
        return found
    cursor.expect("(")
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        name = cursor.take(VALUE, "a value or ')'")
        if name in found:
            raise AssemblyError(cursor.line(), f"expected '{name}' once, found it twice")
        cursor.expect(":")
        found[name] = cursor.item("a type")
    return found


class _Records:
    """The parser of an rProgram's vEUs and of the runs and barriers in them.

    In the text, an ``rtask.run`` names its buffers without types, so the parser keeps the type of
    each buffer of the rProgram.
    """

    def __init__(self, cursor: Cursor, output: Output, buffers: dict[str, str]) -> None:
        self._cursor = cursor
        self._output = output
        self._buffers = buffers

    def parse_veu(self) -> None:
        """Parse ``veu ID [attributes {...}] { RECORD... } [loc(...)]``; append the generic form.

        A RECORD is a run or a wait.

        Raises:
            AssemblyError: if the text does not have this form.
        """
        cursor = self._cursor
        if not cursor.accept("veu"):
            raise cursor.error("'veu' or '}'")
        self._output.write(cursor.line(), '"rtask.veu"() ({')
        attributes = f"id = {clauses.integer(cursor, 'the number of a vEU')} : i64"
        attributes += clauses.further_attributes(cursor, "attributes")
        cursor.expect("{")
        if cursor.comes("}"):
            self._output.write(cursor.line(), _NO_RECORDS)
        while not cursor.accept("}"):
            self._parse_record()
        end = f"}}) {{{attributes}}} : () -> ()"
        self._output.write(cursor.line(), end + clauses.location(cursor))

    def _parse_record(self) -> None:
        cursor = self._cursor
        if cursor.accept("run"):
            parse_record = self._run
        elif cursor.accept("wait"):
            parse_record = self._wait
        else:
            raise cursor.error("'run', 'wait' or '}'")
        line = cursor.line()
        self._output.write(line, parse_record())

    def _run(self) -> str:
        """Parse ``@KERNEL[FIRST..LAST] of ID ["NAME"] (BUFFERS) [{...}] [loc(...)]``.

        The brackets around FIRST and LAST, the first and the last rTask, are part of the text;
        ``[FIRST]`` is a single rTask. All other brackets mean optional. ID is the ``operator_id``
        of the rTasks' rOperator, NAME the name of the model's node. Return the generic form of the
        ``rtask.run``.
        """
        cursor, place = self._cursor, clauses.place(self._cursor)
        kernel = cursor.take(SYMBOL, "the symbol of an rKernel")
        first, count = self._rtasks()
        cursor.expect("of")
        number = clauses.integer(cursor, "the number of an rOperator")
        name = cursor.find(STRING)
        values = clauses.values(cursor)
        types = ", ".join([self._type(value) for value in values])
        return (
            f'"rtask.run"({", ".join(values)}) {{kernel = {kernel}, operator_id = {number} : i64, '
            f"first = {first} : i64, count = {count} : i64{clauses.further_attributes(cursor)}}} "
            f": ({types}) -> (){clauses.location(cursor, name, place)}"
        )

    def _rtasks(self) -> tuple[int, int]:
        cursor = self._cursor
        cursor.expect("[")
        first = int(clauses.integer(cursor, "the number of an rTask"))
        last = first
        if cursor.accept(".."):
            last = int(clauses.integer(cursor, "the number of an rTask"))
        cursor.expect("]")
        return first, last - first + 1

    def _type(self, value: str) -> str:
        if value not in self._buffers:
            raise AssemblyError(
                self._cursor.line(),
                f"expected a value in the rProgram's list of buffers, found '{value}': "
                f"add '{value}: TYPE' to buffers(...)",
            )
        return self._buffers[value]

    def _wait(self) -> str:
        """Parse ``[veu ID @ ORDER, ...] [{...}] [loc(...)]``, the text of a barrier.

        Brackets mean optional: a barrier may have no waits. Return the generic form of the
        ``rtask.barrier``.
        """
        cursor = self._cursor
        found: list[str] = []
        while cursor.accept("," if found else "veu"):
            if found:
                cursor.expect("veu")
            veu = clauses.integer(cursor, "the number of a vEU")
            cursor.expect("@")
            found.append(f"{veu}, {clauses.integer(cursor, 'the order of an rTask')}")
        waits = f"array<i64: {', '.join(found)}>" if found else "array<i64>"
        return (
            f'"rtask.barrier"() {{waits = {waits}{clauses.further_attributes(cursor)}}} '
            f": () -> (){clauses.location(cursor)}"
        )
