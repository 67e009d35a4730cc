"""Defines the exception with which a code generator leaves an operation to the host's rKernels."""

from __future__ import annotations


class NotExpressibleError(Exception):
    """Raised for an operation that a code generator's library or graph format cannot express."""
