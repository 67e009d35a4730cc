"""Reads AMD code objects (symbols, sections, notes), and compiles LLVM IR to AMD assembly."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rammer_mlir.lowering.llvm.codegen import emit_assembly
from rammer_mlir.lowering.rocdl.hsaco import amd_machine

_SYMBOLS = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
_NOTE = 7


@dataclass(frozen=True)
class Symbol:
    """A symbol: its name, section index (0 where undefined), address and size."""

    name: str
    section: int
    address: int
    size: int


@dataclass(frozen=True)
class Section:
    """A section: its name, type, address and content, and the index of a linked section."""

    name: str
    kind: int
    address: int
    content: bytes
    link: int


@dataclass(frozen=True)
class CodeObject:
    """A 64-bit little-endian ELF file."""

    machine: int
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]

    def bytes_of(self, name: str) -> bytes:
        """Return the content of a data symbol."""
        symbol = next(s for s in self.symbols if s.name == name)
        section = self.sections[symbol.section]
        start = symbol.address - section.address
        return section.content[start : start + symbol.size]

    @property
    def notes(self) -> bytes:
        """Return the content of all note sections, joined."""
        return b"".join(s.content for s in self.sections if s.kind == _NOTE)


def read_code_object(data: bytes) -> CodeObject:
    """Parse an ELF file."""
    assert data[:6] == b"\x7fELF\x02\x01"
    machine = struct.unpack_from("<H", data, 18)[0]
    table, flags = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<I", data, 48)[0]
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + n * size) for n in range(count)]
    contents = [b"" if h[1] == 8 else data[h[4] : h[4] + h[5]] for h in headers]
    sections = tuple(
        Section(_text(contents[names], h[0]), h[1], h[3], content, h[6])
        for h, content in zip(headers, contents, strict=True)
    )
    return CodeObject(machine, flags, sections, tuple(_symbols(sections)))


def emit_isa(ir_text: str, chip: str) -> str:
    """Optimize LLVM IR text and compile it to AMD assembly text."""
    return emit_assembly(ir_text, amd_machine(chip))


def _symbols(sections: tuple[Section, ...]) -> list[Symbol]:
    found: list[Symbol] = []
    for section in sections:
        if section.kind in _SYMBOLS:
            for at in range(24, len(section.content), 24):
                name, _, _, index, address, size = struct.unpack_from(
                    "<IBBHQQ", section.content, at
                )
                text = _text(sections[section.link].content, name)
                found.append(Symbol(text, index, address, size))
    return found


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()
