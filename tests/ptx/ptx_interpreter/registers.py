"""The registers of a block's threads, and the values of operands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import Array
from .faults import PtxFault
from .kinds import unsigned
from .module import Instruction

_INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)U?$")
_FLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})$")
_POISON = 0xCD
"""Initial content of each byte of a register: an invalid address, and a conspicuous number."""


class Registers:
    """The registers of a block, each an array over the block's threads, and named constants."""

    def __init__(
        self, bits: Mapping[str, int], threads: int, named: Mapping[str, Array | int]
    ) -> None:
        """Declare registers; their arrays are created at the first use.

        Args:
            bits: number of bits of each register, or of registers with a common prefix; 1 for
                predicates.
            threads: number of threads of the block.
            named: special registers as arrays or numbers, and addresses of symbols.
        """
        self._bits, self._threads, self._named = bits, threads, named
        self._rows: dict[str, Array] = {}

    def row(self, name: str) -> Array:
        """Return the array of a register, as unsigned integers, or bools for a predicate."""
        if name not in self._rows:
            bits = self._bits.get(name) or self._bits.get(name.rstrip("0123456789"))
            if bits is None:
                raise PtxFault(f"expected a register, found '{name}'")
            content = np.full(self._threads * max(1, bits // 8), _POISON, np.uint8)
            self._rows[name] = content & 1 != 0 if bits == 1 else content.view(f"u{bits // 8}")
        return self._rows[name]

    def target(self, name: str, dtype: np.dtype[Any]) -> Array:
        """Return a register's array, viewed as type ``dtype``; writes to it change the register.

        For ``_``, it is a new array that nothing reads. Raises PtxFault if ``dtype`` does not fit.
        """
        if name == "_":
            return np.zeros(self._threads, dtype)
        row = self.row(name)
        if row.dtype == np.bool_ or dtype == np.bool_:
            if row.dtype != dtype:
                raise PtxFault(f"expected a register of type {dtype}, found '{name}'")
            return row
        if row.itemsize != dtype.itemsize:
            raise PtxFault(
                f"expected a register of {8 * dtype.itemsize} bits, found '{name}', which has "
                f"{8 * row.itemsize}"
            )
        return row.view(dtype)

    def low_source(self, text: str, dtype: np.dtype[Any]) -> Any:
        """Return the value of an operand as type ``dtype``.

        A register may be larger than the type; then its low bits are returned.
        """
        if text in self._named or not text.startswith("%"):
            return self.source(text, dtype)
        row = self.row(text)
        if row.itemsize < dtype.itemsize or row.dtype == np.bool_:
            raise PtxFault(f"expected a register of {8 * dtype.itemsize} bits, found '{text}'")
        return row.view(dtype)[:: row.itemsize // dtype.itemsize]

    def source(self, text: str, dtype: np.dtype[Any]) -> Any:
        """Return the value of an operand as type ``dtype``: a register's array, or a number."""
        if text in self._named:
            return _as_type(self._named[text], dtype)
        if text.startswith("%") or text in self._bits:
            return self.target(text, dtype)
        number = immediate(text, dtype)
        if number is None:
            raise PtxFault(f"expected a register, a number or a symbol, found '{text}'")
        return number

    def predicate(self, instruction: Instruction) -> Array:
        """Return a mask of the threads for which an instruction's guard is true."""
        assert instruction.guard is not None
        row = self.target(instruction.guard, np.dtype(np.bool_))
        return ~row if instruction.is_negated else row


def immediate(text: str, dtype: np.dtype[Any]) -> Any:
    """Return a literal of PTX as a number of type ``dtype``; None if ``text`` is no literal."""
    literal = _FLOAT.match(text)
    if literal is not None:
        bits = np.array(int(literal[2], 16), "u4" if literal[1] in "fF" else "u8")
        return bits.view(dtype)[()]
    if _INTEGER.match(text) is None:
        return None
    value = int(text.rstrip("U"), 0)
    if dtype == np.bool_:
        return np.bool_(value)
    whole = unsigned(dtype)
    bits = np.array(value % (1 << 8 * whole.itemsize), whole)
    return bits.view(dtype)[()]


def _as_type(value: Array | int, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, int):
        return np.array(value, unsigned(dtype)).view(dtype)[()]
    return value.astype(unsigned(dtype)).view(dtype)
