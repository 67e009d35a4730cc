"""Find the loops of PTX code, their instructions by kind, and the bytes that they load."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(r"^(\$\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
_INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)(?:\s|$)")
_WIDTHS = re.compile(r"(?:\.v(?P<count>\d))?\.[a-z](?P<bits>\d+)$")
_COPY = re.compile(r"cp\.async\.c[ag]\.shared\.global\s+\[[^\]]*\],\s*\[[^\]]*\],\s*(\d+)")


@dataclass(frozen=True)
class PtxLoop:
    """A loop of PTX code, from a label to the last branch back to it.

    Attributes:
        first: index of the loop's first line in the PTX, from 0.
        lines: the loop's lines of PTX, including those of inner loops.
    """

    first: int
    lines: tuple[str, ...]

    def contains(self, other: PtxLoop) -> bool:
        """Whether the loop ``other`` is inside this loop, or equal to it."""
        end, other_end = self.first + len(self.lines), other.first + len(other.lines)
        return self.first <= other.first and other_end <= end

    @property
    def instructions(self) -> list[str]:
        """The names of the instructions, with their suffixes."""
        found = (_INSTRUCTION.match(line) for line in self.lines)
        return [match[1] for match in found if match]

    def count(self, *prefixes: str) -> int:
        """Return the number of instructions whose names begin with one of ``prefixes``."""
        return sum(name.startswith(prefixes) for name in self.instructions)

    @property
    def products(self) -> int:
        """The loop's number of multiply-adds, matrix instructions and f16 multiplications."""
        return self.count("fma.", "mma.", "mad.rn", "mul.f16")

    @property
    def loaded_bytes(self) -> int:
        """The bytes of device memory that a thread loads or copies in an iteration."""
        loads = (name for name in self.instructions if name.startswith("ld.global"))
        copies = (_COPY.search(line) for line in self.lines)
        return sum(map(_num_bytes, loads)) + sum(int(copy[1]) for copy in copies if copy)


def _num_bytes(instruction: str) -> int:
    found = _WIDTHS.search(instruction)
    assert found, f"expected a type in '{instruction}'"
    return int(found["count"] or 1) * int(found["bits"]) // 8


def main_loop(ptx: str) -> PtxLoop:
    """Return the PTX loop with the most multiply-adds and matrix instructions.

    If no loop has such instructions, return the loop that loads the most bytes from device memory.
    Among loops with equal counts, return the loop with the fewest lines.
    """
    return max(
        _loops(ptx),
        key=lambda one: (one.products, not one.products and one.loaded_bytes, -len(one.lines)),
    )


def loading_loop(ptx: str) -> PtxLoop:
    """Return the innermost loop that loads from device memory and contains the main loop.

    The result may be the main loop. If no loop around the main loop loads from device memory,
    return the main loop.
    """
    inner = main_loop(ptx)
    around = [one for one in _loops(ptx) if one.contains(inner) and one.loaded_bytes]
    return min(around, key=lambda one: len(one.lines), default=inner)


def _loops(ptx: str) -> list[PtxLoop]:
    lines = ptx.splitlines()
    labels = {match[1]: n for n, line in enumerate(lines) if (match := _LABEL.match(line))}
    ends: dict[int, int] = {}
    for n, line in enumerate(lines):
        match = _BRANCH.search(line)
        if match and labels.get(match[1], n) < n:
            ends[labels[match[1]]] = n + 1
    return [PtxLoop(begin, tuple(lines[begin:end])) for begin, end in ends.items()]
