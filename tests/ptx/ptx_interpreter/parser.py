"""A parser of the subset of PTX that LLVM's NVPTX back end writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .calls import inlined
from .faults import PtxFault
from .module import Instruction, Kernel, PtxModule, Variable

_DECLARATION = re.compile(r"\.func\s+[$\w]+\s*\([^){]*\)\s*;")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([$\w]+)\s*:(?!:)\s*")
_ENTRY = re.compile(
    r"(?:\.visible\s+|\.weak\s+)*\.(entry|func)\s+([$\w]+)\s*(?:\((.*?)\))?([^{;]*)\{", re.S
)
_PARAMETER = re.compile(
    r"\.param\s+\.[bu](?:32|64)\s+(?:\.ptr\s+(?:\.\w+\s+)?)?(?:\.align\s+\d+\s+)?([$\w]+)$"
)
_REGISTERS = re.compile(r"\.reg\s+\.(pred|[a-z]\d+)\s+(%?\w+)(?:<\d+>)?$")
_VARIABLE = re.compile(
    r"(?:\.visible\s+|\.extern\s+|\.weak\s+)*\.(shared|global|const|local)\s+"
    r"(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+([$\w]+)(?:\[(\d*)\])?(?:\s*=\s*(.*))?$",
    re.S,
)
_HEADERS = (".version", ".target", ".address_size", ".file", ".loc", ".pragma", ".param")


def parse(text: str) -> PtxModule:
    """Parse the text of a PTX file.

    Raises:
        PtxFault: if the text is not in the supported subset of PTX.
    """
    plain = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    plain = _DECLARATION.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), plain)
    kernels: dict[str, Kernel] = {}
    functions: dict[str, Kernel] = {}
    variables: list[Variable] = []
    at = 0
    for entry in _ENTRY.finditer(plain):
        variables += _variables_between(plain, at, entry.start())
        kernel, at = _kernel(plain, entry)
        (kernels if entry[1] == "entry" else functions)[kernel.name] = kernel
    variables += _variables_between(plain, at, len(plain))
    whole = {name: inlined(kernel, functions) for name, kernel in kernels.items()}
    return PtxModule(whole, tuple(variables))


def _variables_between(text: str, begin: int, end: int) -> list[Variable]:
    """Return the variables that are declared in ``text[begin:end]``, which has no kernel."""
    piece = re.sub(r"^\s*\.(version|target|address_size)\b.*$", "", text[begin:end], flags=re.M)
    found: list[Variable] = []
    for statement in filter(None, (" ".join(s.split()) for s in piece.split(";"))):
        variable = _variable(statement)
        if variable is None:
            raise PtxFault(f"expected a variable or a kernel, found '{statement}'")
        found.append(variable)
    return found


def _variable(statement: str) -> Variable | None:
    match = _VARIABLE.match(statement)
    if match is None:
        return None
    space, alignment, bits, name, count, initial = match.groups()
    width = int(bits) // 8
    content = b""
    if initial is not None:
        numbers = [int(n, 0) for n in initial.strip("{} ").split(",")]
        content = b"".join((n % (1 << 8 * width)).to_bytes(width, "little") for n in numbers)
    size = width * int(count or 1)
    return Variable(name, space, int(alignment or width), size, content)


@dataclass
class _Body:
    """The body of a kernel under construction; its attributes are those of ``Kernel``."""

    registers: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, line: int, statement: str, label: str | None) -> None:
        """Add the statement at line ``line``; ``label`` is the label before it, or None."""
        registers = _REGISTERS.match(statement)
        variable = _variable(statement)
        if statement.startswith(".branchtargets") and label is not None:
            names = statement.removeprefix(".branchtargets").split(",")
            self.targets[label] = tuple(name.strip() for name in names)
        elif registers:
            kind, name = registers.groups()
            self.registers[name] = 1 if kind == "pred" else int(kind[1:])
        elif variable is not None:
            self.variables.append(variable)
        elif statement.startswith("."):
            if not statement.startswith(_HEADERS):
                raise PtxFault(f"line {line}: unknown directive '{statement}'")
        else:
            self.instructions.append(_instruction(line, statement))


def _kernel(text: str, entry: re.Match[str]) -> tuple[Kernel, int]:
    """Parse the kernel of ``text`` whose header is ``entry``.

    Return the kernel, and the position in the text after its body.
    """
    body = _Body()
    end = entry.end()
    for line, label, statement, at in _statements(text, entry.end()):
        end = at
        if label is not None and not statement.startswith(".branchtargets"):
            body.labels[label] = len(body.instructions)
        if statement:
            body.add(line, statement, label)
    parameters = [" ".join(p.split()) for p in (entry[3] or "").split(",") if p.strip()]
    names: list[str] = []
    for parameter in parameters:
        match = _PARAMETER.match(parameter)
        if match is None:
            raise PtxFault(f"kernel '{entry[2]}': expected a pointer, found '{parameter}'")
        names.append(match[1])
    kernel = Kernel(
        entry[2], tuple(names), body.registers, tuple(body.variables), tuple(body.instructions),
        body.labels, body.targets,
    )  # fmt: skip
    return kernel, end


def _statements(text: str, at: int) -> Iterator[tuple[int, str | None, str, int]]:
    """Yield the statements of a body that begins at position ``at``, up to its closing brace.

    Each is a line number, a label or None, the text (empty for a label alone), and the position
    after it.
    """
    depth = 1
    line = text.count("\n", 0, at) + 1
    while depth:
        found = _SPACE.match(text, at)
        assert found is not None
        line += found[0].count("\n")
        at = found.end()
        if text[at] in "{}":
            depth += 1 if text[at] == "{" else -1
            at += 1
            if not depth:
                yield line, None, "", at
            continue
        label = _LABEL.match(text, at)
        if label is not None:
            at = label.end()
            if not text.startswith(".branchtargets", at):
                line += label[0].count("\n")
                yield line, label[1], "", at
                continue
        end = text.index(";", at)
        statement = text[at:end]
        yield line, None if label is None else label[1], " ".join(statement.split()), end + 1
        line += statement.count("\n") + (0 if label is None else label[0].count("\n"))
        at = end + 1


_GUARD = re.compile(r"@(!?)(%\w+)\s+")


def _instruction(line: int, statement: str) -> Instruction:
    guard = _GUARD.match(statement)
    rest = statement[guard.end() :] if guard else statement
    opcode, _, operands = rest.partition(" ")
    return Instruction(
        line, statement, opcode, _split(operands), guard[2] if guard else None,
        guard is not None and guard[1] == "!",
    )  # fmt: skip


def _split(operands: str) -> tuple[str, ...]:
    """Split operands at the commas that are outside of brackets."""
    found: list[str] = []
    depth, begin = 0, 0
    for place, letter in enumerate(operands):
        depth += (letter in "{[(") - (letter in "}])")
        if letter == "," and not depth:
            found.append(operands[begin:place].strip())
            begin = place + 1
    last = operands[begin:].strip()
    return (*found, last) if last else tuple(found)
