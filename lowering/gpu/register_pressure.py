"""Limits on the values that a thread keeps in registers, so that none is spilled to memory.

A thread has at most 255 registers, most of which hold addresses, operands and loop counters.
`nvvm/ptxas.py` reads the registers and spills that the assembler reports.
"""

from __future__ import annotations

MOST_ACCUMULATORS = 32
"""Most accumulators of a thread: an eighth of its registers."""

MOST_MATRICES = 16
"""Most accumulator matrices of a warp, each of which takes 4 registers of a lane."""

MOST_FETCHED = 64
"""Most bytes of a staged chunk that a thread copies: it keeps an address for each access."""
