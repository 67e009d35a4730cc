"""Proof of an artifact's schedule from the file alone (``docs/program.md``).

It shares no code with the compiler, its verifier or the runtime, and runs nothing of the file.
"""

from rammer_mlir.checker.verify import Proven, verify

__all__ = ["Proven", "verify"]
