"""What is wrong with PTX, or with what it does."""

from __future__ import annotations


class PtxFault(Exception):
    """An instruction that the ISA does not allow here, or that the interpreter does not know."""
