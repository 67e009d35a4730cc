"""The compiler's stages: one flat, named list that reads from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import OptionError


@dataclass(frozen=True)
class CompileOptions:
    """What the user decides: scheduling policy, number of vEUs, candidate rKernels per operator.

    ``target`` is as the command line spells it, for example ``cpu`` or ``nvvm:sm_90``.
    """

    policy: str = "wavefront"
    num_veus: int = 1
    candidates: int = 2
    target: str = "cpu"


@dataclass(frozen=True)
class Stage:
    """One named form of the program and the pass pipeline that makes it from the one before."""

    name: str
    passes: tuple[str, ...]

    @property
    def pipeline(self) -> str:
        """Return the stage as a textual pass pipeline, as `rammer-opt` takes it."""
        return f"builtin.module({','.join(self.passes)})"


IR_STAGES = ("linalg", "operators", "tasks", "buffers", "program", "target", "llvm")
"""Stages printed as MLIR or LLVM IR, in order."""

BINARY_STAGES = ("object", "ptx", "cubin", "hsaco")
"""Stages written as binary files."""


def portable_stages(options: CompileOptions) -> tuple[Stage, ...]:
    """Return the stages from `linalg` to `program`, which all targets share."""
    return (
        Stage(
            "operators",
            (
                "linalg-generalize-named-ops",
                "canonicalize",
                "cse",
                "rtask-externalize-constants",
                "rtask-pack-weights",
                "canonicalize",
                "cse",
                "rtask-form-operators",
                *(["rtask-block-weights"] if options.target == "cpu" else []),
                "rtask-decompose-pad",
                "rtask-insert-copies",
                "func.func(linalg-generalize-named-ops,linalg-fuse-elementwise-ops)",
                "canonicalize",
                "cse",
            ),
        ),
        Stage("tasks", (f"rtask-tile{{candidates={options.candidates}}}", "canonicalize", "cse")),
        Stage("buffers", ("rtask-bufferize",)),
        Stage(
            "program",
            (
                f"rtask-schedule{{policy={options.policy} num-veus={options.num_veus}}}",
                "rtask-minimize-barriers",
                "rtask-plan-memory",
                "rtask-verify-schedule",
            ),
        ),
    )


def check_stage(name: str) -> str:
    """Return ``name`` if it is a stage.

    Raises:
        OptionError: if it is not, listing the stages.
    """
    known = (*IR_STAGES, *BINARY_STAGES)
    if name not in known:
        raise OptionError(f"unknown stage '{name}': expected one of {', '.join(known)}")
    return name
