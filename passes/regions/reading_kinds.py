"""Lists the kinds of recognized operations (readings), and checks the kinds in patterns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from rammer_mlir.errors import OptionError
from rammer_mlir.passes.regions.expressions import FUNCTIONS
from rammer_mlir.passes.regions.named_expressions import NAMES

_POOLS = ("max", "min", "sum", "average")
_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "sum_square", "l1")

KINDS = frozenset(
    {
        *(f"{depthwise}conv{rank}d" for depthwise in ("", "depthwise_") for rank in (1, 2, 3)),
        *("matmul", "batch_matmul", "softmax"),
        *(f"{name}_pool" for name in _POOLS),
        *(f"reduce_{name}" for name in _REDUCTIONS),
        *("transpose", "reshape", "broadcast", "slice", "concat", "pad", "fill"),
        *("elementwise", *FUNCTIONS, *NAMES),
    }
)
"""All kinds of recognized operations except ``cast_TYPE``."""


_WINDOWS = ("kernel", "strides", "dilations", "pads", "layout")

_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    **{
        f"{depthwise}conv{rank}d": (*_WINDOWS, "groups", "weight_layout", "output_layout")
        for depthwise in ("", "depthwise_")
        for rank in (1, 2, 3)
    },
    **{name: ("transpose_a", "transpose_b") for name in ("matmul", "batch_matmul")},
    **{f"{name}_pool": (*_WINDOWS, "count_include_pad") for name in _POOLS},
    **{name: ("axes",) for name in ("softmax", *(f"reduce_{each}" for each in _REDUCTIONS))},
    "transpose": ("permutation",),
    "reshape": (),
    "broadcast": ("indexing",),
    "slice": ("offsets", "sizes", "strides"),
    "concat": ("axis",),
    "pad": ("low", "high", "value"),
    "fill": ("value",),
}
"""Attributes of operations by kind, except element-wise functions, which have parameters."""

_NUM_INPUTS: dict[str, int] = {
    **{kind: 2 for kind in _ATTRIBUTES if "conv" in kind or "matmul" in kind},
    **{kind: 1 for kind in _ATTRIBUTES if kind.endswith("_pool") or "axes" in _ATTRIBUTES[kind]},
    **{kind: 1 for kind in ("transpose", "reshape", "broadcast", "slice", "pad")},
}
"""Number of inputs of operations by kind, for kinds where it is fixed."""


def check_pattern(kinds: Sequence[str], num_operands: int, attributes: Iterable[str]) -> None:
    """Check that operations of at least one of ``kinds`` can match a pattern.

    Args:
        kinds: known kinds of operations.
        num_operands: count of the pattern's operands; 0 if the pattern accepts any operands.
        attributes: names of the attributes that the pattern requires.

    Raises:
        OptionError: if no kind in ``kinds`` has ``num_operands`` inputs, or if ``attributes`` has a
            name that is an attribute of no kind in ``kinds``.
    """
    numbers = sorted({_NUM_INPUTS.get(kind, num_operands) for kind in kinds})
    if num_operands and num_operands not in numbers:
        wanted = f"{' or '.join(map(str, numbers))} operand{'' if numbers == [1] else 's'}"
        raise OptionError(f"pattern of {_names(kinds)}: expected {wanted}, found {num_operands}")
    for name in attributes:
        if not any(name in _ATTRIBUTES.get(kind, (name,)) for kind in kinds):
            known = sorted({each for kind in kinds for each in _ATTRIBUTES[kind]})
            raise OptionError(
                f"pattern of {_names(kinds)}: expected attributes among "
                f"{', '.join(known) or 'none'}, found '{name}'"
            )


def _names(kinds: Sequence[str]) -> str:
    return " or ".join(f"'{kind}'" for kind in kinds)


def check_kind(kind: str) -> None:
    """Check that ``kind`` is a known kind of operation.

    Raises:
        OptionError: if ``kind`` is unknown; the message suggests a kind with a similar name, if
            any.
    """
    if kind in KINDS or kind.startswith("cast_"):
        return
    near = difflib.get_close_matches(kind, KINDS, n=1)
    advice = f"did you mean '{near[0]}'?" if near else "docs/ir.md lists them"
    raise OptionError(f"pattern: expected the kind of a reading, found '{kind}'; {advice}")
