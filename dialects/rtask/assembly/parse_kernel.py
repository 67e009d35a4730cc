"""Parses the readable form (custom assembly) of ``rtask.kernel``."""

from __future__ import annotations

from rammer_mlir.dialects.rtask.assembly import clauses
from rammer_mlir.dialects.rtask.assembly.cursor import FLOAT, SYMBOL, Cursor
from rammer_mlir.dialects.rtask.assembly.output import Output
from rammer_mlir.errors import AssemblyError

DEFAULTS = {"threads": "1", "shared_memory": "0", "barriers": "0"}
"""Default values of the costs of an rKernel that may be omitted in the text."""

COSTS = (*DEFAULTS, "operations", "bytes")
ACCESSES = ("reads", "writes", "updates")


def parse_kernel(cursor: Cursor, output: Output) -> None:
    """Parse ``@FUNCTION rtasks(N) COST(N)... [attributes {...}] { ACCESS... } [loc(...)]``.

    A COST is the name of a cost attribute, such as ``threads``; an ACCESS is a box that each rTask
    reads, writes or updates. Brackets mean optional. Append the generic form to ``output``.

    Raises:
        AssemblyError: if the text has another form.
    """
    line = cursor.line()
    function = cursor.take(SYMBOL, "the symbol of an rKernel")
    cursor.expect("rtasks")
    output.write(line, f'"rtask.kernel"() {{function = {function}, num_rtasks = ')
    output.write(line, f"{clauses.in_parentheses(cursor)} : i64{_costs(cursor)}")
    output.write(cursor.line(), clauses.further_attributes(cursor, "attributes"))
    cursor.expect("{")
    _accesses(cursor, output)
    output.write(cursor.line(), f"}} : () -> (){clauses.location(cursor)}")


def _costs(cursor: Cursor) -> str:
    """Parse costs such as ``threads(8)``, in any order; return them as the text of attributes.

    The text is ``, KEY = VALUE`` for each cost. An omitted cost gets its value in ``DEFAULTS``; the
    optional cost ``seconds`` is left out.

    Raises:
        AssemblyError: if ``operations`` or ``bytes`` is omitted, or a cost is given twice.
    """
    found: dict[str, str] = {}
    while key := next(filter(cursor.accept, (*COSTS, "seconds")), ""):
        if key in found:
            raise AssemblyError(cursor.line(), f"expected '{key}' once, found it twice")
        is_time = key == "seconds"
        found[key] = _seconds(cursor) if is_time else f"{clauses.in_parentheses(cursor)} : i64"
    for key in COSTS:
        if key not in found and key not in DEFAULTS:
            raise cursor.error(f"'{key}'")
        found.setdefault(key, f"{DEFAULTS.get(key)} : i64")
    return "".join(f", {key} = {value}" for key, value in found.items())


def _seconds(cursor: Cursor) -> str:
    cursor.expect("(")
    found = [cursor.take(FLOAT, "seconds with a decimal point")]
    while cursor.accept(","):
        found.append(cursor.take(FLOAT, "seconds with a decimal point"))
    cursor.expect(")")
    return f"array<f64: {', '.join(found)}>"


def _accesses(cursor: Cursor, output: Output) -> None:
    """Parse accesses (boxes of arguments) up to ``}``; append them to ``output`` as attributes.

    The attributes are in the order reads, writes, updates. If the accesses in the text are in this
    order too, each access keeps its line number.

    Raises:
        AssemblyError: if neither an access nor ``}`` comes next.
    """
    found: dict[str, list[tuple[int, str]]] = {"reads": [], "writes": []}
    while not cursor.accept("}"):
        key = next(filter(cursor.accept, ACCESSES), "")
        if not key:
            raise cursor.error("'reads', 'writes', 'updates' or '}'")
        found.setdefault(key, []).append((cursor.line(), _access(cursor)))
    for key, accesses in found.items():
        separator = f", {key} = ["
        for line, access in accesses:
            output.write(line, separator + access)
            separator = ", "
        output.write(1, "]" if accesses else f"{separator}]")


def _access(cursor: Cursor) -> str:
    """Parse ``ARGUMENT[OFFSET +: SIZE, ...]`` and return it as a dictionary attribute."""
    argument = clauses.integer(cursor, "the number of an argument")
    offsets: list[str] = []
    sizes: list[str] = []
    cursor.expect("[")
    while not cursor.accept("]"):
        if offsets:
            cursor.expect(",")
        offsets.append(cursor.item("an offset in terms of d0"))
        cursor.expect("+:")
        sizes.append(clauses.integer(cursor, "the size of a box"))
    listed = f": {', '.join(sizes)}" if sizes else ""
    return (
        f"{{argument = {argument} : i64, offsets = affine_map<(d0) -> ({', '.join(offsets)})>, "
        f"sizes = array<i64{listed}>}}"
    )
