"""Selects the pass that forms rOperators, by the option ``boundary``."""

from __future__ import annotations

from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.errors import OptionError

_INPUTS = "inputs"


def check_boundary(boundary: str) -> None:
    """Check a value of the option ``boundary``, for example ``cost`` or ``inputs=3``.

    Raises:
        OptionError: if the value is none of those in the option's help.
    """
    name, equals, most = boundary.partition("=")
    if boundary in ("none", "parallelism", "cost"):
        return
    if name != _INPUTS or not equals or not (most.isascii() and most.isdigit()):
        raise OptionError(
            "boundary: expected none, parallelism, cost, or inputs=F with an integer of at "
            f"least 0, found {boundary!r}"
        )


def formed_operators(options: CompileOptions, enough: int | None = None) -> str:
    """Return the pass that forms rOperators, in the syntax of textual pipelines.

    ``enough`` is the number of independent rTasks that occupy all vEUs; None takes the pass's
    default. Only the boundary ``parallelism`` uses it.
    """
    name, _, most = options.given["boundary"].partition("=")
    if name == "parallelism":
        return f"rtask-form-operators{{enough={enough}}}" if enough else "rtask-form-operators"
    if name == "none":
        return "rtask-form-operators{boundary=none}"
    if name == _INPUTS:
        return f"rtask-form-operators{{boundary=inputs inputs={most}}}"
    launches = " per-operator=true" if options.given["per_operator"] else ""
    where = f'device="{options.device}" num-veus={options.num_veus}{launches}'
    return f"rtask-form-operators{{boundary=cost {where}}}"
