"""The target `serial`: a single thread of this machine, plain loops, few passes.

It compiles faster than the target `cpu` and keeps the model's own computations, without rearranging
channels, weights or convolutions: a reference when results differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.compiler import steps
from rammer_mlir.compiler.backends.cpu import CpuBackend
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.errors import OptionError

_WHOLE = 1 << 60
"""Operations of an rTask: more than any rOperator has, so that none is split."""

_SIMPLIFIED = ("canonicalize", "cse")

_OPERATORS = (
    "linalg-generalize-named-ops",
    *_SIMPLIFIED,
    "rtask-externalize-constants",
    "rtask-pack-weights",
    *_SIMPLIFIED,
    "rtask-form-operators",
    "rtask-decompose-pad",
    "rtask-insert-copies",
    "func.func(linalg-generalize-named-ops)",
    *_SIMPLIFIED,
)


@dataclass(frozen=True)
class SerialBackend(CpuBackend):
    """A single vEU that runs the rOperators in order, each as an rTask of scalar loops."""

    name: ClassVar[str] = "serial"
    spelling: ClassVar[str] = "serial"
    takes: ClassVar[frozenset[str]] = frozenset()
    lacks: ClassVar[tuple[str, ...]] = (
        "There is one vEU, and no vector instruction is asked for.",
    )
    measures: ClassVar[bool] = False
    has_supersteps: ClassVar[bool] = False

    @property
    def default_veus(self) -> int:
        """Return 1."""
        return 1

    def check(self, options: CompileOptions) -> None:
        """Refuse more than one vEU."""
        if options.num_veus != 1:
            raise OptionError(
                f"number of vEUs: expected 1 on target 'serial', found {options.num_veus}; "
                "leave --veus out"
            )

    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return the stages up to an object, including this target's stage `loops`."""
        schedule = f'policy={options.policy} num-veus=1 device="{options.device}"'
        return (
            Stage("operators", _OPERATORS),
            Stage("tasks", (f"rtask-tile{{candidates=1 work={_WHOLE}}}", *_SIMPLIFIED)),
            Stage("buffers", ("rtask-bufferize",)),
            Stage("loops", ("func.func(convert-linalg-to-loops)", *_SIMPLIFIED)),
            Stage(
                "program",
                (f"rtask-schedule{{{schedule}}}", "rtask-plan-memory", "rtask-verify-schedule"),
            ),
            Stage("target", step=steps.lower_to_threads),
            Stage("llvm", step=steps.translate_to_llvm),
            Stage("object", step=steps.compile_to_object),
        )
