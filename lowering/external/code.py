"""Reads foreign code modules, as data, from the ``rtask.module`` operations of a module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import External, read_external
from rammer_mlir.dialects.rtask.module_op import ENGINE, NEEDS, OPTIONS
from rammer_mlir.passes.ir.code_modules import code_modules, objects_of
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.programs.modules import NATIVE, CodeModule, Requirement


@dataclass(frozen=True)
class ForeignCode:
    """A foreign code module.

    Attributes:
        name: the symbol of its ``rtask.module``.
        form: ``c``, ``llvm``, ``object``, ``ptx``, ``cuda``, ``graph`` or ``binary``.
        content: source, LLVM IR or PTX in UTF-8, a relocatable object, a graph, or other bytes.
        symbols: names of the module's functions that rKernels call.
        engine: name of the engine (a foreign library, such as ``onnxruntime``) that executes a
            graph or binary; else empty.
        needs: packages that the module requires at run time.
        objects: relocatable objects to link with the module.
        options: pairs (name, value) that users gave for the engine.
    """

    name: str
    form: str
    content: bytes
    symbols: tuple[str, ...] = ()
    engine: str = ""
    needs: tuple[Requirement, ...] = ()
    objects: tuple[bytes, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_linked(self) -> bool:
        """Whether the module is linked into native code; otherwise an engine executes it."""
        return self.form in NATIVE

    @property
    def module(self) -> CodeModule:
        """The module's data as stored in a compiled program.

        A linked module has no content there, because its code is a part of the program's code.
        """
        content = b"" if self.is_linked else self.content
        return CodeModule(
            self.name, self.form, self.engine, content, self.needs, options=self.options
        )

    @property
    def text(self) -> str:
        """The content decoded from UTF-8: source, LLVM IR or PTX."""
        return self.content.decode(errors="replace")


def read_code(module: ir.Module) -> tuple[ForeignCode, ...]:
    """Return the foreign code modules of the ``rtask.module`` operations in a module."""
    called: dict[str, dict[str, None]] = {}
    for description in described_kernels(module).values():
        external = read_external(description.operation)
        if external is not None:
            called.setdefault(external.module, {}).update(dict.fromkeys(functions_of(external)))
    return tuple(_read(op, called) for op in code_modules(module))


def functions_of(external: External) -> tuple[str, ...]:
    """Return the names of an rKernel's linked functions.

    The names are ``SYMBOL_open``, ``SYMBOL_run`` and ``SYMBOL_close`` if the rKernel has a state,
    else there is only ``SYMBOL``.
    """
    if not external.has_state:
        return (external.symbol,)
    return tuple(f"{external.symbol}_{name}" for name in ("open", "run", "close"))


def _read(op: ir.Operation, called: Mapping[str, Iterable[str]]) -> ForeignCode:
    name, form, code = (ir.StringAttr(op.attributes[key]) for key in ("sym_name", "form", "code"))
    symbols = tuple(called.get(name.value, ()))
    engine = ir.StringAttr(op.attributes[ENGINE]).value if ENGINE in op.attributes else ""
    needs = ir.ArrayAttr(op.attributes[NEEDS]) if NEEDS in op.attributes else ()
    wanted = tuple(map(_requirement, needs))
    options = _strings(op.attributes[OPTIONS]) if OPTIONS in op.attributes else {}
    return ForeignCode(
        name.value, form.value, code.value_bytes, symbols, engine, wanted, objects_of(op),
        tuple(options.items()),
    )  # fmt: skip


def _strings(dictionary: ir.Attribute) -> dict[str, str]:
    return {item.name: ir.StringAttr(item.attr).value for item in ir.DictAttr(dictionary)}


def _requirement(entry: ir.Attribute) -> Requirement:
    return Requirement(**_strings(entry))
