"""Tests that random launches on shared buffers give the results of running them in sequence.

The emulator reports an unordered conflict between blocks whatever the numbers are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from megakernel import Array, compile_launches, random_arrays

ROWS, COLUMNS = 6, 8
KIND = f"memref<{ROWS}x{COLUMNS}xf32>"

PATTERNS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "same": ("%u = arith.addi %i, %c0 : index\n%v = arith.addi %j, %c0 : index", lambda x: x),
    "mirror": (
        "%u = arith.subi %last_row, %i : index\n%v = arith.subi %last_column, %j : index",
        lambda x: x[::-1, ::-1],
    ),
    "shift": (
        "%next = arith.addi %j, %c1 : index\n%u = arith.addi %i, %c0 : index\n"
        "%v = arith.minsi %next, %last_column : index",
        lambda x: np.concatenate((x[:, 1:], x[:, -1:]), axis=1),
    ),
    "rotate": (
        "%next = arith.addi %i, %c2 : index\n%u = arith.remui %next, %rows : index\n"
        "%v = arith.addi %j, %c0 : index",
        lambda x: np.roll(x, -2, axis=0),
    ),
    "first row": (
        "%u = arith.addi %c0, %c0 : index\n%v = arith.addi %j, %c0 : index",
        lambda x: np.broadcast_to(x[0], x.shape),
    ),
    "halves": (
        "%half = arith.divui %j, %c2 : index\n%u = arith.addi %i, %c0 : index\n"
        "%v = arith.addi %half, %c0 : index",
        lambda x: x[:, np.arange(COLUMNS) // 2],
    ),
}
"""MLIR that maps written indices %i, %j to read indices %u, %v, and the pattern in NumPy."""


@dataclass(frozen=True)
class Step:
    """A launch in a random program: it computes ``target = target / 2 + source[pattern]``.

    Attributes:
        target: index of the buffer that is changed.
        source: index of the buffer that is read.
        pattern: name in ``PATTERNS`` of the rule that tells which element of the source is read.
        block: threads of a block, in rows and columns.
        shared: whether the elements that are read go through shared memory.
    """

    target: int
    source: int
    pattern: str
    block: tuple[int, int]
    shared: bool

    @property
    def name(self) -> str:
        """The kernel's name."""
        words = (self.pattern.replace(" ", "_"), *self.block, "shared" if self.shared else "plain")
        return "_".join(map(str, words))

    def kernel(self) -> str:
        """Return MLIR text of the kernel.

        With ``shared``, an element that is read goes through shared memory.
        """
        text, _ = PATTERNS[self.pattern]
        rows, columns = self.block
        space = "#gpu.address_space<workgroup>"
        tile = f"memref<{rows}x{columns}xf32, {space}>"
        attribution = f"workgroup(%tile: {tile})" if self.shared else ""
        detour = f"""
  memref.store %read, %tile[%ti, %tj] : {tile}
  gpu.barrier
  %got = memref.load %tile[%ti, %tj] : {tile}""" if self.shared else (
            "%got = arith.addf %read, %none : f32"
        )  # fmt: skip
        return f"""
gpu.func @{self.name}(%source: {KIND}, %target: {KIND}) {attribution} kernel {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = arith.constant {ROWS} : index
  %last_row = arith.constant {ROWS - 1} : index
  %last_column = arith.constant {COLUMNS - 1} : index
  %half_f = arith.constant 0.5 : f32
  %none = arith.constant -0.0 : f32
  %ti = gpu.thread_id y
  %tj = gpu.thread_id x
  %i = gpu.global_id y
  %j = gpu.global_id x
  {text}
  %read = memref.load %source[%u, %v] : {KIND}
  {detour}
  %old = memref.load %target[%i, %j] : {KIND}
  %less = arith.mulf %old, %half_f : f32
  %new = arith.addf %less, %got : f32
  memref.store %new, %target[%i, %j] : {KIND}
  gpu.return
}}
"""

    def apply(self, buffers: list[Array]) -> None:
        """Execute the step on ``buffers`` in float64."""
        _, pattern = PATTERNS[self.pattern]
        buffers[self.target] = buffers[self.target] / 2 + pattern(buffers[self.source])


def random_steps(seed: int, length: int) -> list[Step]:
    """Return random steps.

    A step whose input and output are the same buffer reads only the elements that it writes.
    """
    rng = random.Random(seed)
    steps: list[Step] = []
    for _ in range(length):
        target, source = rng.randrange(3), rng.randrange(3)
        pattern = "same" if target == source else rng.choice(list(PATTERNS))
        block = rng.choice((1, 2, 3, 6)), rng.choice((1, 2, 4, 8))
        steps.append(Step(target, source, pattern, block, rng.random() < 0.4))
    return steps


def module_of(steps: list[Step]) -> str:
    """Return a host function that launches the steps."""
    kernels = {step.name: step.kernel() for step in steps}
    launches: list[str] = []
    for step in steps:
        rows, columns = step.block
        launches.append(
            f"gpu.launch_func @k::@{step.name} blocks in (%c{COLUMNS // columns}, "
            f"%c{ROWS // rows}, %c1) threads in (%c{columns}, %c{rows}, %c1) "
            f"args(%b{step.source} : {KIND}, %b{step.target} : {KIND})"
        )
    constants = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(1, 9))
    return f"""
module attributes {{gpu.container_module}} {{
func.func @host({", ".join(f"%b{n}: {KIND}" for n in range(3))}) {{
{constants}
{chr(10).join(launches)}
return
}}
gpu.module @k {{
{"".join(kernels.values())}
}}
}}"""


def check(seed: int, length: int, num_veus: int, policy: str) -> None:
    steps = random_steps(seed, length)
    mega = compile_launches(module_of(steps), num_veus=num_veus, policy=policy)
    arrays = random_arrays(seed, *[(ROWS, COLUMNS)] * 3)
    expected = [array.astype(np.float64) for array in arrays]
    for step in steps:
        step.apply(expected)
    for found, wanted in zip(mega.run(*arrays), expected, strict=True):
        assert np.abs(found - wanted).max() < 1e-4 * max(1.0, np.abs(wanted).max()), steps


@pytest.mark.parametrize("seed", range(6))
def test_sequences(seed: int) -> None:
    check(seed, 8, 2 + seed % 3, ("wavefront", "list", "sequential")[seed % 3])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_sequences(seed: int) -> None:
    check(seed, 12, 2 + seed % 4, ("wavefront", "list", "ios")[seed % 3])
