"""Inlining of function calls, which LLVM leaves for a long rKernel with several call sites.

Before a kernel is executed, each call is replaced by the function's body, whose registers and
labels get new names. Parameters of the function become registers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .faults import PtxFault
from .module import Instruction, Kernel, Variable

_REGISTER = re.compile(r"(%[a-z]+)(?=\d)")
_PARAMETER = re.compile(r"\[([$\w]+)\]$")


@dataclass
class _Inlined:
    """A kernel under construction, in which calls are replaced by the functions' bodies.

    ``functions`` has the functions that may be called, by name, and ``calls`` counts the replaced
    calls. The other attributes are those of the new ``Kernel``.
    """

    functions: Mapping[str, Kernel]
    registers: dict[str, int] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: int = 0

    def add(self, function: Kernel, prefix: str, parameters: Mapping[str, str]) -> None:
        """Append the body of ``function``, with its registers and labels prefixed by ``prefix``.

        ``parameters`` maps each parameter of the function to the register that has its argument.
        """
        self.registers |= {_renamed(n, prefix): bits for n, bits in function.registers.items()}
        self.variables |= {variable.name: variable for variable in function.variables}
        for name, labels in function.targets.items():
            self.targets[prefix + name] = tuple(prefix + label for label in labels)
        labels_at: dict[int, list[str]] = {}
        for label, place in function.labels.items():
            labels_at.setdefault(place, []).append(prefix + label)
        for place, instruction in enumerate(function.instructions):
            self._stand(labels_at.get(place, []))
            self._one(function, instruction, prefix, parameters)
        self._stand([*labels_at.get(len(function.instructions), []), f"{prefix}end"])

    def _stand(self, labels: list[str]) -> None:
        for label in labels:
            self.labels[label] = len(self.instructions)

    def _one(
        self, function: Kernel, old: Instruction, prefix: str, parameters: Mapping[str, str]
    ) -> None:
        if old.name == "call":
            self._call(old, prefix)
            return
        names = {*function.labels, *function.targets} if old.name in ("bra", "brx") else set()
        operands = [
            prefix + text if text in names else _own(text, prefix, function)
            for text in old.operands
        ]
        guard = None if old.guard is None else _own(old.guard, prefix, function)
        new = replace(old, operands=tuple(operands), guard=guard)
        if old.opcode.startswith("st.param"):
            register = _argument(prefix, _parameter(old, 0))
            self.registers[register] = int(old.qualifiers[-1][1:])
            new = replace(new, opcode=f"mov.{old.qualifiers[-1]}", operands=(register, operands[1]))
        elif old.opcode.startswith("ld.param") and _parameter(old, 1) in parameters:
            register = parameters[_parameter(old, 1)]
            new = replace(new, opcode=f"mov.{old.qualifiers[-1]}", operands=(operands[0], register))
        elif old.name == "ret" and prefix:
            new = replace(new, opcode="bra", operands=(f"{prefix}end",))
        self.instructions.append(new)

    def _call(self, instruction: Instruction, prefix: str) -> None:
        """Append the body of the function that ``instruction`` calls.

        ``prefix`` is the prefix of the caller's registers, which have the arguments.
        """
        name, *lists = instruction.operands
        if name not in self.functions or len(lists) > 1 or instruction.guard:
            raise PtxFault(f"{instruction}: expected a call of a function without results")
        given = [text.strip() for text in lists[0].strip("() ").split(",")] if lists else []
        function = self.functions[name]
        registers = [_argument(prefix, text) for text in given]
        self.calls += 1
        inner = f"c{self.calls}_"
        self.add(function, inner, dict(zip(function.parameters, registers, strict=True)))


def inlined(kernel: Kernel, functions: Mapping[str, Kernel]) -> Kernel:
    """Return the kernel with all calls replaced by the bodies of ``functions``, given by name.

    Raises:
        PtxFault: if the kernel calls a function that is not in ``functions``.
    """
    if not any(instruction.name == "call" for instruction in kernel.instructions):
        return kernel
    whole = _Inlined(functions)
    whole.add(kernel, "", {})
    return Kernel(
        kernel.name, kernel.parameters, whole.registers, tuple(whole.variables.values()),
        tuple(whole.instructions), whole.labels, whole.targets,
    )  # fmt: skip


def _renamed(name: str, prefix: str) -> str:
    return f"%{prefix}{name[1:]}" if name.startswith("%") else name


def _own(text: str, prefix: str, function: Kernel) -> str:
    """Return an operand in which the function's own registers are prefixed by ``prefix``.

    Special registers such as ``%tid.x`` keep their names.
    """
    return _REGISTER.sub(
        lambda found: _renamed(found[1], prefix) if found[1] in function.registers else found[1],
        text,
    )


def _argument(prefix: str, name: str) -> str:
    return f"%{prefix}argument_{name}"


def _parameter(instruction: Instruction, place: int) -> str:
    match = _PARAMETER.match(instruction.operands[place])
    if match is None:
        raise PtxFault(f"{instruction}: expected a whole parameter")
    return match[1]
