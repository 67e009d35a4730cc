"""The exception by which code generators leave an operation to the host."""

from __future__ import annotations


class NotExpressibleError(Exception):
    """Raised for an operation that a library or a graph cannot express, or an engine refuses."""
