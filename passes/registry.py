"""The table of our passes, in the order in which the compiler runs them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.rtask_batch_products import BatchProducts
from rammer_mlir.passes.rtask_block_channels import BlockChannels
from rammer_mlir.passes.rtask_block_weights import BlockWeights
from rammer_mlir.passes.rtask_bufferize import Bufferize
from rammer_mlir.passes.rtask_decompose_pad import DecomposePad
from rammer_mlir.passes.rtask_distribute_activations import DistributeActivations
from rammer_mlir.passes.rtask_externalize_constants import ExternalizeConstants
from rammer_mlir.passes.rtask_fold_veus import FoldVeus
from rammer_mlir.passes.rtask_form_operators import FormOperators
from rammer_mlir.passes.rtask_insert_copies import InsertCopies
from rammer_mlir.passes.rtask_merge_operators import MergeOperators
from rammer_mlir.passes.rtask_minimize_barriers import MinimizeBarriers
from rammer_mlir.passes.rtask_pack_weights import PackWeights
from rammer_mlir.passes.rtask_pad_channels import PadChannels
from rammer_mlir.passes.rtask_plan_memory import PlanMemory
from rammer_mlir.passes.rtask_print_schedule import PrintSchedule
from rammer_mlir.passes.rtask_schedule import Schedule
from rammer_mlir.passes.rtask_split_products import SplitProducts
from rammer_mlir.passes.rtask_tile import Tile
from rammer_mlir.passes.rtask_verify_schedule import VerifySchedule
from rammer_mlir.passes.rtask_winograd import Winograd

PASSES: tuple[type[Pass], ...] = (
    ExternalizeConstants,
    MergeOperators,
    BatchProducts,
    PackWeights,
    SplitProducts,
    DistributeActivations,
    PadChannels,
    BlockChannels,
    FormOperators,
    BlockWeights,
    Winograd,
    DecomposePad,
    InsertCopies,
    Tile,
    Bufferize,
    Schedule,
    MinimizeBarriers,
    FoldVeus,
    PlanMemory,
    VerifySchedule,
    PrintSchedule,
)


def help_line(kind: type[Pass]) -> str:
    """Return the first line of the pass's docstring."""
    return (kind.__doc__ or "").strip().partition("\n")[0]


def close_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known pass whose name is most like ``name``, if any is."""
    words = {full.removeprefix("rtask-"): full for full in known}
    close = difflib.get_close_matches(name.removeprefix("rtask-"), words, n=1, cutoff=0.7)
    return words[close[0]] if close else None
