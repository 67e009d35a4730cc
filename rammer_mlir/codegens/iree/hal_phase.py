"""Finds the only dispatch of a region in the MLIR text of IREE's ``hal`` phase."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rammer_mlir.codegens.iree.adapter import Call

_EXECUTABLE = re.compile(r"hal\.executable private @([\w$.]+)")
_CONSTANT = re.compile(r"(%[\w$.-]+) = arith\.constant (\d+) : index")
_BUFFER = re.compile(r"(%[\w$.-]+) = hal\.buffer_view\.buffer<%arg(\d+) : !hal\.buffer_view>")
_DISPATCH = re.compile(
    r"hal\.command_buffer\.dispatch<.*workgroups\(\[([^\]]*)\]\) bindings\(\[\n(.*?)\n *\]\) flags",
    re.DOTALL,
)
_EXECUTE = re.compile(
    r"hal\.device\.queue\.execute\.indirect<.*?bindings\(\[\n(.*?)\n *\]\)", re.DOTALL
)
_BINDING = re.compile(r"\((%[\w$.-]+) : (?:index|!hal\.buffer)\)\[(%[\w$.-]+), %[\w$.-]+\]")

_OTHERS = re.compile(
    r"hal\.command_buffer\.(?!create|dispatch<|execution_barrier|finalize)"
    r"|hal\.device\.queue\.(?!execute\.indirect)"
)
"""Matches commands other than the dispatch, such as copies, which the adapter would not run."""


def read_call(text: str, num_bytes: tuple[int, ...]) -> Call | None:
    """Return the call of a program's only dispatch (kernel launch); None for other programs.

    Args:
        text: the program as MLIR text of the ``hal`` phase; workgroup counts must be constants.
        num_bytes: size in bytes of each operand of the region, inputs first.
    """
    executables = _EXECUTABLE.findall(text)
    is_single = text.count("hal.command_buffer.dispatch<") == len(executables) == 1
    if not is_single or _OTHERS.search(text):
        return None
    recorded, run = (_part_with(text, what) for what in (_DISPATCH, _EXECUTE))
    if recorded is None or run is None:
        return None
    (part, dispatch), (main, execute) = recorded, run
    numbers = {name: int(value) for name, value in _CONSTANT.findall(part)}
    counts = [numbers.get(name.strip(), 0) for name in dispatch[1].split(",")]
    buffers = {name: int(number) for name, number in _BUFFER.findall(main)}
    places, operands = _bound(dispatch[2], part, numbers), _bound(execute[1], main, buffers)
    # A count is 0 if its operand is not a constant.
    if not places or not operands or max(places) >= len(operands) or 0 in counts:
        return None
    x, y, z = counts
    bindings = tuple(operands[place] for place in places)
    return Call(f"{executables[0]}_library_query", (x, y, z), bindings, num_bytes)


def _part_with(text: str, pattern: re.Pattern[str]) -> tuple[str, re.Match[str]] | None:
    """Return the text of the first function that matches a pattern, and the match.

    The result is None if no function matches.
    """
    for part in text.split("util.func"):
        found = pattern.search(part)
        if found is not None:
            return part, found
    return None


def _bound(listing: str, part: str, known: Mapping[str, int]) -> list[int] | None:
    """Return the operand's index for each buffer binding, in the order of the bindings.

    Args:
        listing: the bindings, each on its own line of MLIR text.
        part: text of the function that contains the bindings.
        known: indices of the operands by their SSA names in the function.

    Returns:
        The indices, or None if an operand is unknown or bound from an offset above 0.
    """
    zeros = {name for name, value in _CONSTANT.findall(part) if int(value) == 0}
    found = _BINDING.findall(listing)
    # A line that does not match is a binding of another kind.
    is_whole = len(found) == len(listing.splitlines())
    if not is_whole or any(start not in zeros or name not in known for name, start in found):
        return None
    return [known[name] for name, _ in found]
