"""The compiler's stages: one flat, named list that reads from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import OptionError


@dataclass(frozen=True)
class CompileOptions:
    """What the user decides: scheduling policy, number of vEUs, candidate rKernels per operator.

    ``target`` is as the command line spells it, for example ``cpu`` or ``nvvm:sm_90``;
    ``device`` is the device description, by name or file, whose costs schedules follow; with
    ``measured``, rKernels cost what was measured on this processor. For a bulk-synchronous device,
    no rTask touches more than ``tile_bytes``, and ``fold_to`` vEUs execute what was scheduled for
    ``num_veus``; both are 0 for others. On a GPU,
    ``watchdog`` is how often a waiting vEU looks before it stops the program (0: for ever), and
    ``per_operator`` launches the kernel once for each operator instead of once. With
    ``merge_growth``, convolutions of one image are merged if that multiplies the arithmetic by no
    more; 0 merges none. ``winograd`` allows 3x3 convolutions on a CPU by Winograd's minimal
    filtering, whose rounding errors are larger.
    """

    policy: str = "wavefront"
    num_veus: int = 1
    candidates: int = 2
    target: str = "cpu"
    device: str = "cpu"
    measured: bool = False
    tile_bytes: int = 0
    fold_to: int = 0
    watchdog: int = 0
    per_operator: bool = False
    merge_growth: float = 0.0
    winograd: bool = True

    @property
    def launched_veus(self) -> int:
        """Number of vEUs that execute the program."""
        return min(self.fold_to, self.num_veus) or self.num_veus


@dataclass(frozen=True)
class Stage:
    """One named form of the program and the pass pipeline that makes it from the one before."""

    name: str
    passes: tuple[str, ...]

    @property
    def pipeline(self) -> str:
        """Return the stage as a textual pass pipeline, as `rammer-opt` takes it."""
        return f"builtin.module({','.join(self.passes)})"


_CPU_WORK = 12_000_000
"""Scalar operations of a coarse rTask: about 60 microseconds of a core."""

_FEW_VEUS = 4
"""vEUs of a CPU that one step of a recurrent layer keeps busy."""

_CPU_ENOUGH, _ENOUGH_FOR_EACH = 16, 4
"""rTasks of one rOperator that divide well among the vEUs of a CPU: at least, and for each vEU."""

IR_STAGES = ("linalg", "operators", "tasks", "buffers", "program", "target", "llvm")
"""Stages printed as MLIR or LLVM IR, in order."""

BINARY_STAGES = ("object", "ptx", "cubin", "hsaco")
"""Stages written as binary files."""


def portable_stages(options: CompileOptions) -> tuple[Stage, ...]:
    """Return the stages from `linalg` to `program`, which all targets share."""
    cpu = options.target == "cpu"
    return (
        Stage(
            "operators",
            (
                "linalg-generalize-named-ops",
                "canonicalize",
                "cse",
                "rtask-externalize-constants",
                *_merging(options),
                *(["rtask-batch-products"] if cpu else []),
                "rtask-pack-weights",
                "canonicalize",
                "cse",
                *_splitting(options),
                *(_blocking() if cpu else []),
                "rtask-form-operators",
                *(["rtask-block-weights", *_winograd(options)] if cpu else []),
                "rtask-decompose-pad",
                "rtask-insert-copies",
                "func.func(linalg-generalize-named-ops,linalg-fuse-elementwise-ops)",
                "canonicalize",
                "cse",
            ),
        ),
        Stage("tasks", (_tile(options), "canonicalize", "cse")),
        Stage("buffers", ("rtask-bufferize",)),
        Stage(
            "program",
            (
                *(["rtask-profile-kernels"] if options.measured else []),
                f"rtask-schedule{{policy={options.policy} num-veus={options.num_veus}"
                f' device="{options.device}"'
                f"{' per-operator=true' if options.per_operator else ''}}}",
                "rtask-minimize-barriers",
                *_folding(options),
                "rtask-plan-memory",
                "rtask-verify-schedule",
            ),
        ),
    )


def _blocking() -> tuple[str, ...]:
    return (
        "rtask-distribute-activations",
        "cse",
        "rtask-pad-channels",
        "rtask-block-channels",
        "linalg-generalize-named-ops",
        "canonicalize",
        "cse",
    )


def _splitting(options: CompileOptions) -> tuple[str, ...]:
    # Operator after operator, parts of a product would only be more operators; and a few cores are
    # kept busy by one recurrent layer, whose input weights they then read less often.
    cpu = options.target == "cpu"
    if options.policy == "sequential" or (cpu and options.num_veus <= _FEW_VEUS):
        return ()
    return (f"rtask-split-products{{rows={16 if cpu else 8}}}", "linalg-generalize-named-ops")


def _winograd(options: CompileOptions) -> tuple[str, ...]:
    # What an rTask touches is not limited to a vEU's memory there.
    return ("rtask-winograd",) if options.winograd and not options.tile_bytes else ()


def _tile(options: CompileOptions) -> str:
    memory = f" memory={options.tile_bytes}" if options.tile_bytes else ""
    if options.target == "cpu":
        enough = max(_CPU_ENOUGH, _ENOUGH_FOR_EACH * options.num_veus)
        wanted = f" work={_CPU_WORK} enough={enough}"
    else:
        wanted = f' device="{options.device}" num-veus={options.num_veus}'
    return f"rtask-tile{{candidates={options.candidates}{memory}{wanted}}}"


def _merging(options: CompileOptions) -> tuple[str, ...]:
    if not options.merge_growth:
        return ()
    chosen = f' device="{options.device}" num-veus={options.num_veus}'
    merge = (
        f"rtask-merge-operators{{growth={options.merge_growth}"
        f"{chosen if options.policy == 'ios' else ''}}}"
    )
    return (merge, "linalg-generalize-named-ops", "canonicalize", "cse")


def _folding(options: CompileOptions) -> tuple[str, ...]:
    if not options.fold_to:
        return ()
    return ("rtask-verify-schedule", f"rtask-fold-veus{{num-veus={options.fold_to}}}")


def check_stage(name: str) -> str:
    """Return ``name`` if it is a stage.

    Raises:
        OptionError: if it is not, listing the stages.
    """
    known = (*IR_STAGES, *BINARY_STAGES)
    if name not in known:
        raise OptionError(f"unknown stage '{name}': expected one of {', '.join(known)}")
    return name
