"""Replaces a program's outputs by values of its regions, which calibration observes.

The values are the operands and results of the calls of regions, and the tensors that the
contractions inside the regions multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import is_constant
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.ir.reshapes import RESHAPES
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.quantization.contractions import Contraction, Factor, contractions_of
from rammer_mlir.passes.quantization.region_calls import (
    RegionCall,
    body_of,
    call_of,
    inline_composites,
    region_calls,
    return_more,
    return_only,
)

Array = NDArray[Any]

ReadWeight = Callable[[int], Array | None]
"""Maps the index of a region's input to its array if the input is a weight, else to None."""


@dataclass(frozen=True)
class Tap:
    """The index of a program's input or output at which a value of the model can be observed.

    ``is_input`` tells whether ``number`` is the index of an input or of an output.
    """

    number: int
    is_input: bool


@dataclass(frozen=True)
class RegionTaps:
    """Taps of the values that a call of a region reads, computes and returns.

    Attributes:
        factors: for each contraction, the taps of its two factors; None for weights.
        terms: for each contraction, the number of products in each of its sums.
        operands: the taps of the call's operands; None for weights.
        results: the taps of the call's results.
    """

    factors: Sequence[tuple[Tap | None, Tap | None]]
    terms: Sequence[int]
    operands: Sequence[Tap | None]
    results: Sequence[Tap]


def weights_of_call(call: ir.Operation, arrays: Mapping[int, Array]) -> ReadWeight:
    """Return a function that maps an operand's index to its array, if the operand is a weight.

    The function returns None for an operand that is no weight.

    Args:
        call: a call of a region, in the entry function.
        arrays: the weights by index of the entry function's argument.
    """

    def read(number: int) -> Array | None:
        value = call.operands[number]
        shape = shape_of(value)
        while not isinstance(value.owner, ir.Block) and value.owner.name in RESHAPES:
            value = value.owner.operands[0]
        if not isinstance(value.owner, ir.Block) or not is_constant(value):
            return None
        array = arrays.get(ir.BlockArgument(value).arg_number)
        return None if array is None else np.asarray(array).reshape(shape)

    return read


@dataclass
class _Program:
    """A program whose entry function is changed to return values of its regions.

    Attributes:
        module: the program.
        arrays: the array of each weight, by the index of the entry function's argument.
        outputs: maps each returned value to the index of its output.
    """

    module: ir.Module
    arrays: Mapping[int, Array]
    outputs: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])

    def tap(self, call: RegionCall, contractions: Sequence[Contraction]) -> RegionTaps:
        """Make a call of a region also return values inside the region; return the call's taps.

        These values are the tensors that the contractions multiply, before reshapes and zero
        paddings. A region without contractions stays unchanged and gets no taps.
        """
        if not contractions:
            return RegionTaps((), (), (), ())
        inner = _inner_sources(contractions)
        made = call_of(call.function, list(call.op.operands), call.op)
        count = len(call.op.results)
        for old, new in zip(call.op.results, made.results, strict=False):
            old.replace_all_uses_with(new)
        self.outputs = {self._renamed(v, call.op, made): n for v, n in self.outputs.items()}
        call.op.erase()
        places = {value: made.results[count + n] for n, value in enumerate(inner)}
        read = weights_of_call(made, self.arrays)

        def seen(number: int) -> Tap | None:
            return None if read(number) is not None else self._tap(made.operands[number])

        def factor(each: Factor) -> Tap | None:
            return self._tap(places[each.source]) if each.argument is None else seen(each.argument)

        return RegionTaps(
            [(factor(each.factors[0]), factor(each.factors[1])) for each in contractions],
            [each.terms for each in contractions],
            [seen(number) for number in range(len(made.operands))],
            [self._tap(made.results[number]) for number in range(count)],
        )

    @staticmethod
    def _renamed(value: ir.Value, old: ir.Operation, new: ir.Operation) -> ir.Value:
        pairs = zip(old.results, new.results, strict=False)
        return next((made for result, made in pairs if result == value), value)

    def _tap(self, value: ir.Value) -> Tap:
        if isinstance(value.owner, ir.Block):
            return Tap(ir.BlockArgument(value).arg_number, is_input=True)
        return Tap(self.outputs.setdefault(value, len(self.outputs)), is_input=False)


def _inner_sources(contractions: Sequence[Contraction]) -> list[ir.Value]:
    """Return the tensors inside a region from which the operands of its contractions are computed.

    Only reshapes and zero paddings are between such a tensor and an operand. Inputs of the region
    are left out, and each tensor is returned once.
    """
    factors = (factor for each in contractions for factor in each.factors)
    return list(dict.fromkeys(f.source for f in factors if f.argument is None))


def tap_regions(
    module: ir.Module, codegens: Collection[str], arrays: Mapping[int, Array]
) -> list[RegionTaps]:
    """Replace the entry function's outputs by operands, results and inner values of all regions.

    The inner values are those that the regions' contractions multiply.

    Args:
        module: the module, which is changed and stays valid.
        codegens: the code generators whose regions are tapped.
        arrays: the weights by index of the entry function's argument.

    Returns:
        The taps of each call of a region, in order.
    """
    calls = region_calls(module, codegens)
    found: dict[str, list[Contraction]] = {}
    for call in calls:
        if call.region not in found:
            inline_composites(module, call.function)
            found[call.region] = list(contractions_of(body_of(call.function)))
            return_more(call.function, _inner_sources(found[call.region]))
    program = _Program(module, arrays)
    taps = [program.tap(call, found[call.region]) for call in calls]
    if program.outputs:
        return_only(entry_function(module), list(program.outputs))
    return taps
