"""The error that the interpreter raises for invalid PTX, and for invalid behavior of PTX."""

from __future__ import annotations


class PtxFault(Exception):
    """The error of an instruction that is invalid, unknown, or does something forbidden.

    Forbidden are, for example, accesses outside of buffers, and data races.
    """
