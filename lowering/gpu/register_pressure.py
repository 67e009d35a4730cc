"""Defines limits on the values that a thread keeps in registers, to avoid spills to memory.

Code generation obeys these constants. A thread has at most 255 registers, most of which hold
addresses, operands and loop counters. `nvvm/ptxas.py` reads from ptxas's report how many registers
and spills the kernel really has.
"""

from __future__ import annotations

MOST_ACCUMULATORS = 32
"""Largest number of a thread's accumulators: an eighth of its registers."""

MOST_MATRICES = 16
"""Largest number of a warp's accumulator matrices, each of which takes 4 registers of a lane."""

MOST_FETCHED = 64
"""Largest number of bytes of a staged chunk that a thread copies.

The thread keeps an address in registers for each access.
"""
