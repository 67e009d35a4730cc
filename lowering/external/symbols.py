"""Checks that each symbol that foreign code uses is defined by the code itself, libc or libm."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.codegen import parse_linked, undefined
from rammer_mlir.lowering.llvm.jit import Library, load_object, process_defines
from rammer_mlir.lowering.llvm.machine import LLVM_LOCK, host_machine

_ELF = b"\x7fELF"

_TYPE_AT, _MACHINE_AT, _SECTIONS_AT, _NUM_SECTIONS_AT, _NAMES_AT = 16, 18, 40, 60, 62
"""Offsets of fields in the header of a 64-bit ELF file (System V ABI, chapter 4)."""

_RELOCATABLE = 1

_MACHINES = {"x86_64": 62, "aarch64": 183}
"""Value of the header's machine field for each processor family."""

_SECTION: Any = np.dtype(
    {
        "names": ["type", "offset", "size", "link"],
        "formats": ["<u4", "<u8", "<u8", "<u4"],
        "offsets": [4, 24, 32, 40],
        "itemsize": 64,
    }
)
"""Fields of a section's header; a symbol table's ``link`` is the index of its section of names."""

_SYMBOL: Any = np.dtype(
    {
        "names": ["name", "info", "section"],
        "formats": ["<u4", "u1", "<u2"],
        "offsets": [0, 4, 6],
        "itemsize": 24,
    }
)

_LOCAL_IN_IR = (llvm.Linkage.internal, llvm.Linkage.private)

_SYMBOL_TABLE, _TEXTS = 2, 3
"""Types of sections: the symbol table, and texts that end with a zero byte."""

_LOCAL, _WEAK, _NO_SECTION = 0, 2, 0

_OF_THE_LINKER = frozenset({"_GLOBAL_OFFSET_TABLE_", "__dso_handle", "atexit", "__cxa_finalize"})
"""Symbols that linkers and startup files define."""


@dataclass(frozen=True)
class Symbols:
    """The names of the global symbols of foreign code.

    Attributes:
        defined: the symbols that the code defines.
        used: the symbols that the code uses but does not define.
    """

    defined: frozenset[str]
    used: frozenset[str]


def check_symbols(code: ForeignCode, own: bytes | None) -> None:
    """Check that foreign code for this machine can be linked.

    Args:
        code: foreign code that is linked.
        own: the relocatable object of the code; None for LLVM IR.

    Raises:
        TargetError: if a function that rKernels call is missing, the code uses a symbol that
            neither its objects nor this process define, or an object cannot be loaded; the message
            names the module.
    """
    objects = code.objects if own is None else (own, *code.objects)
    found = [_of_object(each) for each in objects]
    for content, symbols in zip(objects, found, strict=True):
        _check_format(code, content, symbols)
    library = _loaded(code, objects) if objects else None
    if own is None:
        found.append(_of_ir(code))
    known = [each for each in found if each is not None]
    # Objects of another format are only loaded; assembly may define any symbol.
    has_assembly = own is None and "module asm" in code.text
    if len(known) == len(found) and not has_assembly:
        _check_names(code, known)
    if own is not None and library is not None:
        _check_addresses(code, library)


def _check_format(code: ForeignCode, content: bytes, symbols: Symbols | None) -> None:
    """Check an object's format before LLVM reads it: some damaged files crash LLVM.

    ``symbols`` are the object's symbols, None if it is not a valid 64-bit ELF file.

    Raises:
        TargetError: if ``content`` is a damaged ELF file, not relocatable, or for another
            processor.
    """
    if symbols is None and content.startswith(_ELF):
        raise _not_loaded(code, "a damaged ELF file, or one that is not relocatable")
    machine = int.from_bytes(content[_MACHINE_AT : _MACHINE_AT + 2], "little")
    if symbols is not None and machine != _MACHINES.get(platform.machine(), machine):
        raise _not_loaded(code, f"one for another processor, machine {machine} in its ELF header")


def _check_names(code: ForeignCode, parts: Sequence[Symbols]) -> None:
    nothing = frozenset[str]()
    defined = nothing.union(*(each.defined for each in parts))
    for symbol in code.symbols:
        if symbol not in defined:
            raise undefined(code.name, symbol)
    used = nothing.union(*(each.used for each in parts)) - defined - _OF_THE_LINKER
    of_sections = ("__start_", "__stop_")  # linkers define the limits of sections
    used = {name for name in used if not name.startswith(of_sections)}
    missing = [name for name in sorted(used) if not process_defines(name)]
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise TargetError(
            f"module '{code.name}': expected definitions of all symbols that it uses, found none "
            f"of {names}; add objects that define them, or mend the code"
        )


def _loaded(code: ForeignCode, objects: Sequence[bytes]) -> Library:
    try:
        return load_object(*objects)
    except TargetError as error:
        raise _not_loaded(code, str(error.__cause__)) from error


def _check_addresses(code: ForeignCode, library: Library) -> None:
    for symbol in code.symbols:
        try:
            library.address(symbol)
        except TargetError as error:
            raise _not_loaded(code, str(error.__cause__)) from error


def _not_loaded(code: ForeignCode, found: str) -> TargetError:
    return TargetError(
        f"module '{code.name}': expected an object that this process can load, found "
        f"'{' '.join(found.split())}'; mend it"
    )


def _of_object(content: bytes) -> Symbols | None:
    """Return the symbols of a relocatable object; None if it is not valid 64-bit ELF."""
    try:
        fields = ((_TYPE_AT, 2), (_SECTIONS_AT, 8), (_NUM_SECTIONS_AT, 2), (_NAMES_AT, 2))
        kind, at, count, names_of_sections = (
            int.from_bytes(content[i : i + n], "little") for i, n in fields
        )
        sections: Any = np.frombuffer(content, _SECTION, count, at)
        if kind != _RELOCATABLE or sections[names_of_sections]["type"] != _TEXTS:
            return None
        tables = sections[sections["type"] == _SYMBOL_TABLE]
        if not len(tables):
            return Symbols(frozenset(), frozenset())
        (table,) = tables
        names = sections[table["link"]]
        rows: Any = np.frombuffer(_part(content, table), _SYMBOL)
        named = rows[(rows["name"] > 0) & (rows["info"] >> 4 != _LOCAL)]
        is_used, is_weak = named["section"] == _NO_SECTION, named["info"] >> 4 == _WEAK
        texts = _part(content, names)
        return Symbols(
            frozenset(_texts(texts, named["name"][~is_used])),
            frozenset(_texts(texts, named["name"][is_used & ~is_weak])),
        )
    except (ValueError, IndexError, OverflowError):
        return None


def _part(content: bytes, section: Any) -> bytes:
    return content[section["offset"] : section["offset"] + section["size"]]


def _texts(texts: bytes, offsets: Iterable[int]) -> Iterator[str]:
    """Yield the zero-terminated strings that begin at the byte ``offsets`` of ``texts``."""
    for offset in offsets:
        yield texts[offset : texts.index(b"\0", offset)].decode(errors="replace")


def _of_ir(code: ForeignCode) -> Symbols:
    """Return the symbols of LLVM IR.

    Raises:
        TargetError: if LLVM does not parse the IR.
    """
    with LLVM_LOCK:
        module = parse_linked(code.name, code.text)
        passes = llvm.create_new_module_pass_manager()
        # Declarations that nothing uses need no definition.
        passes.add_strip_dead_prototype_pass()
        target = host_machine().create_target_machine()
        options = llvm.create_pipeline_tuning_options(speed_level=0)
        passes.run(module, llvm.create_pass_builder(target, options))
        values = [*module.functions, *module.global_variables]
        named = [
            (each.name, each.is_declaration, each.linkage)
            for each in values
            if each.linkage not in _LOCAL_IN_IR
        ]
    return Symbols(
        frozenset(name for name, is_used, _ in named if not is_used),
        frozenset(
            name
            for name, is_used, linkage in named
            if is_used and not name.startswith("llvm.") and linkage != llvm.Linkage.external_weak
        ),
    )
