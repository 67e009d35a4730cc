"""Types of the bindings' module ``passmanager``, as far as we use it."""

from collections.abc import Callable
from typing import Any, overload

from rammer_mlir.bindings import ir

class PassManager:
    def __init__(self, anchor_op: str = "any", context: ir.Context | None = None) -> None: ...
    @staticmethod
    def parse(pipeline: str, context: ir.Context | None = None) -> PassManager: ...
    @overload
    def add(self, pipeline: str) -> None: ...
    @overload
    def add(
        self,
        run: Callable[[ir.Operation, Any], None],
        name: str | None = None,
        argument: str | None = None,
        description: str | None = None,
        op_name: str | None = None,
    ) -> None: ...
    def run(self, operation: ir.Operation | ir.OpView) -> None: ...
    def enable_verifier(self, enable: bool) -> None: ...
    def enable_timing(self) -> None: ...
