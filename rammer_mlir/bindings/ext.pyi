"""Types of the bindings' module ``dialects.ext``, which defines dialects in Python."""

from typing import Any, ClassVar

from rammer_mlir.bindings import ir

Operand = ir.Value
Result = ir.OpResult
Region = ir.Region

class DialectAlreadyLoadedError(RuntimeError): ...

class Dialect(ir.Dialect):
    """Base of a dialect; each dialect has a separate ``Operation`` as the base of its ops."""

    DIALECT_NAMESPACE: ClassVar[str]
    operations: ClassVar[list[type[ir.OpView]]]

    def __init_subclass__(cls, name: str, **kwargs: Any) -> None: ...
    @classmethod
    def load(cls) -> None: ...

    class Operation(ir.OpView):
        OPERATION_NAME: ClassVar[str]

        def __init_subclass__(
            cls,
            *,
            name: str | None = None,
            traits: list[type[ir.DynamicOpTrait] | type[ir.MemoryEffectsOpInterface]] | None = None,
            **kwargs: Any,
        ) -> None: ...
        def __init__(
            self,
            *fields: Any,
            loc: ir.Location | None = None,
            ip: ir.InsertionPoint | None = None,
            **named_fields: Any,
        ) -> None: ...
