"""Makes a region's objects: IREE's library, and the adapter that calls it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.codegens.iree.adapter import Call, adapter_ir
from rammer_mlir.codegens.iree.compiler import compile_text
from rammer_mlir.codegens.iree.hal_phase import read_call
from rammer_mlir.codegens.iree.probing import Run, Tiles, find_tiles
from rammer_mlir.codegens.iree.program import Program
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.lowering.llvm.named_machines import named_machine
from rammer_mlir.programs.modules import forms_for

_MOST_BYTES = 1 << 30
"""Largest size of all operands of a region, in bytes, for which the boxes of rTasks are probed."""


@dataclass(frozen=True)
class ObjectCode:
    """The relocatable objects of a region.

    Attributes:
        symbol: name of the adapter's function, which runs an rTask.
        adapter: object that defines ``symbol`` and calls ``library``.
        library: IREE's object with the dispatch function.
        tiles: number of rTasks, and the box that each writes.
    """

    symbol: str
    adapter: bytes
    library: bytes
    tiles: Tiles


def machine_of(target: str) -> Machine:
    """Return the processor of a target ``cpu`` (this machine's processor) or ``cpu:NAME``.

    Raises:
        TargetError: if the target is not a CPU: only CPU programs can link IREE's objects.
    """
    _, _, name = target.partition(":")
    if "object" not in forms_for(target):
        raise TargetError(
            f"code generator 'iree': expected a CPU as target, found '{target}'; leave it out"
        )
    return named_machine(name).machine() if name else host_machine()


def make_object(program: Program, symbol: str) -> ObjectCode | str:
    """Return a region's objects; a message if IREE does not make a single, working dispatch.

    ``symbol`` is the name of the adapter's function, which runs an rTask.
    """
    machine = machine_of(program.target)
    text = program.text(f"{symbol}_region")
    compiled = compile_text(text, machine, program.flags, program.seconds)
    if isinstance(compiled, str):
        return compiled
    operands = (*program.inputs, *program.outputs)
    call = read_call(compiled.text, tuple(tensor.num_bytes for tensor in operands))
    if call is None:
        return "it is several dispatches, or has temporary memory"
    tiles = _tiles(program, symbol, call, compiled.content)
    if tiles is None:
        return "its function fails on random inputs"
    adapter = emit_object(adapter_ir(symbol, call, tiles.workgroups_each), machine)
    return ObjectCode(symbol, adapter, compiled.content, tiles)


def _tiles(program: Program, symbol: str, call: Call, library: bytes) -> Tiles | None:
    """Return the rTasks of a region; None if the dispatch returns an error status when probed.

    ``library`` is the object file with the dispatch function. Probing runs the dispatch on this
    machine to find the boxes; if the dispatch cannot be probed, the region has a single rTask.
    """
    is_small = sum(call.num_bytes) <= _MOST_BYTES
    if len(program.outputs) != 1 or not is_small or not _runs_here(program.target):
        # The boxes cannot be probed, so a single rTask runs all workgroups.
        return Tiles(call.num_workgroups)
    one = emit_object(adapter_ir(symbol, call, 1), machine_of(program.target))
    code = load_object(one, library)
    failed: list[int] = []
    run = _runner(code.address(symbol), program, failed)
    (output,) = program.outputs
    tiles = find_tiles(run, call.workgroups, (output.array(), output.array()))
    return None if failed else tiles


def _runs_here(target: str) -> bool:
    _, _, name = target.partition(":")
    return not name or named_machine(name).is_this


def _runner(address: int, program: Program, failed: list[int]) -> Run:
    """Return a function that runs a workgroup on random inputs and a given output array.

    ``address`` is the address of an adapter function that runs a workgroup per rTask. The returned
    function appends each nonzero status of the adapter to ``failed``.
    """
    inputs = [tensor.random(seed) for seed, tensor in enumerate(program.inputs)]
    pointers = [ctypes.c_void_p] * (len(inputs) + 1)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, *pointers)(address)

    def run(number: int, output: NDArray[np.generic]) -> None:
        status = function(number, *(array.ctypes.data for array in (*inputs, output)))
        if status:
            failed.append(status)

    return run
