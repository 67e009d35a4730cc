"""Lists our passes in the order in which the compiler runs them; registers passes of extensions."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from collections.abc import Iterable
from typing import Any, get_args, get_origin, get_type_hints

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.rtask_annotate_regions import AnnotateRegions
from rammer_mlir.passes.rtask_apply_costs import ApplyCosts
from rammer_mlir.passes.rtask_batch_products import BatchProducts
from rammer_mlir.passes.rtask_block_channels import BlockChannels
from rammer_mlir.passes.rtask_block_reductions import BlockReductions
from rammer_mlir.passes.rtask_block_weights import BlockWeights
from rammer_mlir.passes.rtask_bufferize import Bufferize
from rammer_mlir.passes.rtask_chunk_chains import ChunkChains
from rammer_mlir.passes.rtask_decompose_pad import DecomposePad
from rammer_mlir.passes.rtask_distribute_activations import DistributeActivations
from rammer_mlir.passes.rtask_externalize_constants import ExternalizeConstants
from rammer_mlir.passes.rtask_fold_veus import FoldVeus
from rammer_mlir.passes.rtask_form_operators import FormOperators
from rammer_mlir.passes.rtask_generate_regions import GenerateRegions
from rammer_mlir.passes.rtask_hoist_zero_points import HoistZeroPoints
from rammer_mlir.passes.rtask_inline_composites import InlineComposites
from rammer_mlir.passes.rtask_inline_regions import InlineRegions
from rammer_mlir.passes.rtask_insert_copies import InsertCopies
from rammer_mlir.passes.rtask_layout_regions import LayoutRegions
from rammer_mlir.passes.rtask_legalize import Legalize
from rammer_mlir.passes.rtask_match_composites import MatchComposites
from rammer_mlir.passes.rtask_merge_operators import MergeOperators
from rammer_mlir.passes.rtask_merge_regions import MergeRegions
from rammer_mlir.passes.rtask_minimize_barriers import MinimizeBarriers
from rammer_mlir.passes.rtask_outline_regions import OutlineRegions
from rammer_mlir.passes.rtask_pack_weights import PackWeights
from rammer_mlir.passes.rtask_pad_channels import PadChannels
from rammer_mlir.passes.rtask_pipeline import Pipeline
from rammer_mlir.passes.rtask_plan_memory import PlanMemory
from rammer_mlir.passes.rtask_prefer_external import PreferExternal
from rammer_mlir.passes.rtask_print_designs import PrintDesigns
from rammer_mlir.passes.rtask_print_schedule import PrintSchedule
from rammer_mlir.passes.rtask_recompute import Recompute
from rammer_mlir.passes.rtask_recompute_temporaries import RecomputeTemporaries
from rammer_mlir.passes.rtask_schedule import Schedule
from rammer_mlir.passes.rtask_split_products import SplitProducts
from rammer_mlir.passes.rtask_split_regions import SplitRegions
from rammer_mlir.passes.rtask_tile import Tile
from rammer_mlir.passes.rtask_transpose_right_sides import TransposeRightSides
from rammer_mlir.passes.rtask_verify_schedule import VerifySchedule
from rammer_mlir.passes.rtask_widen_indices import WidenIndices
from rammer_mlir.passes.rtask_winograd import Winograd
from rammer_mlir.support.plugins import Registry, check_name, refuse

PASSES: tuple[type[Pass], ...] = (
    Legalize,
    ExternalizeConstants,
    MatchComposites,
    AnnotateRegions,
    MergeRegions,
    SplitRegions,
    OutlineRegions,
    LayoutRegions,
    GenerateRegions,
    InlineRegions,
    MergeOperators,
    BatchProducts,
    HoistZeroPoints,
    PackWeights,
    SplitProducts,
    TransposeRightSides,
    DistributeActivations,
    PadChannels,
    BlockChannels,
    BlockReductions,
    FormOperators,
    ChunkChains,
    Pipeline,
    BlockWeights,
    Winograd,
    DecomposePad,
    InsertCopies,
    RecomputeTemporaries,
    WidenIndices,
    InlineComposites,
    PrintDesigns,
    Tile,
    Recompute,
    Bufferize,
    PreferExternal,
    ApplyCosts,
    Schedule,
    MinimizeBarriers,
    FoldVeus,
    PlanMemory,
    VerifySchedule,
    PrintSchedule,
)

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_OWN_PREFIX = "rtask-"
_OPTION_TYPES = (int, bool, str, float)


def _check(name: str, value: object) -> type[Pass]:
    kind: Any = value
    is_pass = isinstance(kind, type) and issubclass(kind, Pass) and not inspect.isabstract(kind)
    if not is_pass:
        refuse("a subclass of rammer_mlir.passes.Pass with a method run(module)", value)
    own_name = str(getattr(kind, "name", ""))
    check_name(name, own_name)
    if not _NAME.fullmatch(own_name) or own_name.startswith(_OWN_PREFIX):
        refuse(f"a name of lowercase words and dashes, without '{_OWN_PREFIX}'", repr(own_name))
    if _is_mlir_pass(own_name):
        refuse("a name that MLIR has no pass of", repr(own_name))
    _check_options(kind)
    return kind


def _check_options(kind: type[Pass]) -> None:
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        element = get_args(hint)[0] if get_origin(hint) in (list, tuple) else hint
        if element not in _OPTION_TYPES or field.default is dataclasses.MISSING:
            refuse(
                "options of int, bool, str, float, or lists or tuples of them, with a default",
                f"'{field.name}: {field.type}'",
            )


def _is_mlir_pass(name: str) -> bool:
    try:
        with ir.Context():
            passmanager.PassManager.parse(f"any({name})")
    except ValueError as error:
        return not is_unknown_to_mlir(error)
    return True


def is_unknown_to_mlir(error: ValueError) -> bool:
    """Whether an error of MLIR's pipeline parser means that the pipeline names an unknown pass."""
    return "does not refer to a registered" in str(error)


EXTENSION_PASSES: Registry[type[Pass]] = Registry("pass", {}, _check, "passes")
"""The registered passes of extensions, by name."""


def register_pass(kind: type[Pass]) -> None:
    """Register a pass under its name, for pipelines and as an option of `rammer-opt`.

    Example::

        @dataclass(frozen=True)
        class CountFunctions(Pass):
            name: ClassVar[str] = "count-functions"
            def run(self, module: ir.Module) -> None:
                print(len(list(module.body.operations)))
        register_pass(CountFunctions)

    Raises:
        OptionError: if ``kind`` is not a pass, has an option of an unsupported type, or its name is
            taken.
    """
    EXTENSION_PASSES.register(str(getattr(kind, "name", "")), kind)


def help_line(kind: type[Pass]) -> str:
    """Return the first line of the pass's docstring."""
    return (kind.__doc__ or "").strip().partition("\n")[0]


def close_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name in ``known`` that is most similar to ``name``, None if none is similar."""
    words = {full.removeprefix("rtask-"): full for full in known}
    close = difflib.get_close_matches(name.removeprefix("rtask-"), words, n=1, cutoff=0.7)
    return words[close[0]] if close else None
