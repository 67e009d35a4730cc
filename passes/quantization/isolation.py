"""Reduces a program to calls of its quantized regions.

The operands of these calls become inputs of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constants import ArgumentList
from rammer_mlir.passes.ir.entry import entry_block, entry_function
from rammer_mlir.passes.quantization.candidates import Candidate
from rammer_mlir.passes.quantization.region_calls import return_only
from rammer_mlir.passes.quantization.taps import RegionTaps, Tap


def isolate_candidates(
    module: ir.Module, copy: ir.Module, chosen: Sequence[tuple[Candidate, RegionTaps]]
) -> list[Tap]:
    """Reduce the program ``copy`` to calls of quantized regions, and return the taps of its inputs.

    The results of the calls become the outputs of ``copy``; the calls' operands, except weights,
    become additional inputs. The tap of an additional input names the input or output of the f32
    program, as changed by ``tap_regions``, that has the same value.

    Args:
        module: the module with the quantized regions; unchanged.
        copy: a copy of the module, which is reduced.
        chosen: for each quantized region, its candidate and the taps of the f32 region.

    Returns:
        The tap for each additional input of the entry function, in order.
    """
    places = {op.operation: place for place, op in enumerate(entry_block(module).operations)}
    copied = [op.operation for op in entry_block(copy).operations]
    arguments = ArgumentList(entry_function(copy))
    inputs: dict[Tap, ir.Value] = {}
    calls: list[ir.Operation] = []
    for candidate, taps in chosen:
        call = copied[places[candidate.made]]
        seen = dict(zip(candidate.call.op.operands, taps.operands, strict=True))
        for number, value in enumerate(candidate.made.operands):
            tap = seen.get(value)
            if tap is not None:
                if tap not in inputs:
                    inputs[tap] = arguments.add(value.type, {})
                call.operands[number] = inputs[tap]
        calls.append(call)
    return_only(entry_function(copy), [value for call in calls for value in call.results])
    _erase_unused(entry_block(copy))
    arguments.finish()
    return list(inputs)


def _erase_unused(block: ir.Block) -> None:
    """Erase the operations of a block, except the terminator, if their results have no uses.

    Calls are erased too, because calls of regions have no side effects.
    """
    *operations, _ = block.operations
    for op in reversed(operations):
        if not any(True for result in op.operation.results for _ in result.uses):
            op.operation.erase()
