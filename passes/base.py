"""Defines the base class of passes, and the errors that a pass raises at an operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError, PassError


class Form(Enum):
    """A requirement of a pass on a module's functions, such as "static tensors in one block"."""

    TENSORS = "static tensors, and scalars, in one block"
    TENSORS_ALONE = "static tensors in one block"
    OPERATORS = "rOperators on whole tensors"
    TASKS = "rOperators of tiled rKernels on tensors"
    BUFFERS = "rOperators of described rKernels on buffers"


@dataclass(frozen=True)
class Pass(ABC):
    """A rewrite or a check of a whole module.

    A subclass is a frozen dataclass: its fields are its options in a textual pipeline (types
    ``int``, ``bool``, ``str``, ``float`` and ``list`` or ``tuple`` of them, each with a default),
    and the first line of its docstring is its help text.
    """

    name: ClassVar[str]
    """The pass's name in a textual pipeline, equal to its module's name with dashes."""

    only_marks: ClassVar[bool] = False
    """Whether the pass changes only discardable attributes.

    Such a pass keeps memoized readings (the tensor operations recognized in the IR) valid.
    """

    takes: ClassVar[Form | None] = None
    """The form in which the module has to be, checked before the pass runs; None for no check."""

    def check_options(self) -> None:  # noqa: B027  most passes take all values of their options
        """Check the values of the options, before the pass reads the module.

        The default implementation accepts all values.

        Raises:
            RammerError: if the value of an option is invalid; the message names the option.
        """

    @abstractmethod
    def run(self, module: ir.Module) -> None:
        """Change the module in place, or check it.

        Raises:
            RammerError: if the module does not meet the pass's requirements.
        """


def check_least(own: Pass, least: int, *names: str) -> None:
    """Check that each option of the pass ``own`` in ``names`` is at least ``least``.

    Raises:
        OptionError: if an option is less than ``least``; the message names the option.
    """
    for name in names:
        found = getattr(own, name)
        if not found >= least:
            option = name.replace("_", "-")
            raise OptionError(f"{own.name}: {option}: expected at least {least}, found {found}")


class OperationError(PassError):
    """An error of a pass about an operation.

    The error has the operation's location, so that tools can show the line. The message starts with
    the operation's name and, if the location has a name, the name of the model's node.
    """

    def __init__(self, op: ir.OpView | ir.Operation, message: str) -> None:
        self.location: ir.Location = op.operation.location
        super().__init__(f"{_title(op.operation)}: {message}")


class DiagnosticError(OperationError):
    """An error whose location and message come from a diagnostic of MLIR."""

    def __init__(self, location: ir.Location, message: str) -> None:
        self.location = location
        PassError.__init__(self, message)


class FindingsError(OperationError):
    """An error that combines all errors that a check found, at one operation or at several.

    The location is that of the first error, and the message joins the messages of all errors.
    """

    def __init__(self, findings: Sequence[OperationError]) -> None:
        self.findings = tuple(findings)
        self.location = self.findings[0].location
        PassError.__init__(self, "; ".join(map(str, self.findings)))


def _title(op: ir.Operation) -> str:
    location = op.location
    if isinstance(location, ir.NameLoc):
        return f"'{op.name}' ({location.name_str})"
    return f"'{op.name}'"
