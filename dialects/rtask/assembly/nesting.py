"""Checks the nesting depth of a module's text, because MLIR recurses at each bracket.

A text that is nested too deeply would overflow the stack of MLIR's parser or verifier.
"""

from __future__ import annotations

import numpy as np

from rammer_mlir.errors import AssemblyError

MAX_NESTING = 1000
"""Maximum number of open brackets. MLIR overflows a stack of 8 MiB at about 4,000."""

_CHUNK = 1 << 20
"""Bytes of text whose brackets are counted at a time, to bound the memory for long texts."""

_STEPS = np.zeros(256, np.int32)
_STEPS[list(b"{([")] = 1
_STEPS[list(b"})]")] = -1


def check_nesting(text: str) -> None:
    """Check that the nesting of a text does not overflow the stack and end the process.

    Raises:
        AssemblyError: at the line where more than ``MAX_NESTING`` brackets are open.
    """
    if sum(map(text.count, "{([")) <= MAX_NESTING:
        return
    data = np.frombuffer(text.encode(), np.uint8)
    depth = 0
    for begin in range(0, len(data), _CHUNK):
        depths = depth + np.cumsum(_STEPS[data[begin : begin + _CHUNK]])
        if depths.max() > MAX_NESTING:
            place = begin + int(np.argmax(depths > MAX_NESTING))
            line = data[:place].tobytes().count(b"\n") + 1
            raise AssemblyError(
                line, f"expected at most {MAX_NESTING} nested brackets, found more: nest it less"
            )
        depth = int(depths[-1])
