"""Code from elsewhere as data, out of the ``rtask.module`` operations of a module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import read_external
from rammer_mlir.passes.ir.code_modules import code_modules, objects_of
from rammer_mlir.passes.ir.kernels import described_kernels


@dataclass(frozen=True)
class ForeignCode:
    """Code from elsewhere.

    Attributes:
        name: the symbol of its ``rtask.module``.
        form: ``c``, ``llvm`` or ``object``.
        content: C source or LLVM IR in UTF-8, or a relocatable object.
        symbols: functions of it that rKernels call.
        objects: relocatable objects that it calls.
    """

    name: str
    form: str
    content: bytes
    symbols: tuple[str, ...] = ()
    objects: tuple[bytes, ...] = ()

    @property
    def text(self) -> str:
        """C source or LLVM IR."""
        return self.content.decode(errors="replace")


def read_code(module: ir.Module) -> tuple[ForeignCode, ...]:
    """Return the code from elsewhere that a module holds."""
    called: dict[str, dict[str, None]] = {}
    for description in described_kernels(module).values():
        external = read_external(description.operation)
        if external is not None:
            called.setdefault(external.module, {})[external.symbol] = None
    return tuple(_read(op, called) for op in code_modules(module))


def take_code(module: ir.Module) -> tuple[ForeignCode, ...]:
    """Take the code from elsewhere out of a module."""
    found = read_code(module)
    for op in list(code_modules(module)):
        op.erase()
    return found


def _read(op: ir.Operation, called: Mapping[str, Iterable[str]]) -> ForeignCode:
    name, form, code = (ir.StringAttr(op.attributes[key]) for key in ("sym_name", "form", "code"))
    symbols = tuple(called.get(name.value, ()))
    return ForeignCode(name.value, form.value, code.value_bytes, symbols, objects_of(op))
