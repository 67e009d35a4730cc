"""Parses the readable form (custom assembly) of ``rtask.operator``."""

from __future__ import annotations

from rammer_mlir.dialects.rtask.assembly import clauses
from rammer_mlir.dialects.rtask.assembly.cursor import INTEGER, STRING, SYMBOL, TYPE_NAME, Cursor
from rammer_mlir.dialects.rtask.assembly.output import Output


def parse_operator(cursor: Cursor, output: Output) -> None:
    """Parse ``[ID] ["NAME"] KERNELS (OPERANDS) [{...}] : TYPE [loc(...)]``; brackets mean optional.

    ID is the rOperator's ``operator_id``, NAME the name of the model's node. Append the generic
    form to ``output``.

    Raises:
        AssemblyError: if the text does not have this form.
    """
    line, place = cursor.line(), clauses.place(cursor)
    number = cursor.find(INTEGER)
    name = cursor.find(STRING)
    attributes = f"kernels = [{', '.join(_kernels(cursor))}]"
    if number is not None:
        attributes += f", operator_id = {number} : i64"
    operands = ", ".join(clauses.values(cursor))
    attributes += clauses.further_attributes(cursor)
    text = f'"rtask.operator"({operands}) {{{attributes}}} : {_function_type(cursor)}'
    output.write(line, text + clauses.location(cursor, name, place))


def _kernels(cursor: Cursor) -> list[str]:
    if not cursor.accept("["):
        return [cursor.take(SYMBOL, "the symbol of an rKernel or '['")]
    found = [cursor.take(SYMBOL, "the symbol of an rKernel")]
    while cursor.accept(","):
        found.append(cursor.take(SYMBOL, "the symbol of an rKernel"))
    cursor.expect("]")
    return found


def _function_type(cursor: Cursor) -> str:
    cursor.expect(":")
    inputs = cursor.balanced("(")
    cursor.expect("->")
    if cursor.comes("("):
        return f"({inputs}) -> ({cursor.balanced('(')})"
    result = cursor.take(TYPE_NAME, "a result type or '('")
    if cursor.comes("<"):
        result += f"<{cursor.balanced('<')}>"
    return f"({inputs}) -> {result}"
