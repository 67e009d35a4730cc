"""Hand-written rPrograms with known results (ring programs), in which rows read two neighbors.

Row ``r`` of a layer is ``0.5 * (x[r] + x[(r + 1) % rows]) + w[r]``, where ``x`` is the layer before
and ``w`` a constant matrix. Layers alternate between two buffers, so every rTask has
read-after-write and write-after-read waits. The vEU of a row changes from layer to layer, unless
there are one or five vEUs. A missing or early wait shows up as a wrong number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.dispatch import STRAIGHT_LINE_LIMIT
from rammer_mlir.lowering.cpu.native_image import build_image, lower_program
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import native_code

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Ring:
    """A ring program: ``layers`` layers of ``rows`` rTasks, with a known result.

    Each rTask computes a row from two neighboring rows of the layer before.

    Attributes:
        num_veus: number of vEUs.
        layers: number of layers; each has an rTask for each row.
        rows: number of rows of a layer.
        columns: number of elements of a row.
        programs: number of rPrograms into which the layers are divided.
        without_barriers: whether barriers are left out, so that results are wrong.
    """

    num_veus: int = 2
    layers: int = 6
    rows: int = 5
    columns: int = 40
    programs: int = 1
    without_barriers: bool = False

    @property
    def signature(self) -> Signature:
        """The signature: an input ``x`` and an output ``y`` of ``rows x columns`` floats."""
        spec = (self.rows, self.columns), np.dtype(np.float32)
        return Signature((TensorSpec("x", *spec),), (TensorSpec("y", *spec),))

    def weights(self) -> Array:
        """Return the constant matrix that every layer adds."""
        return np.random.default_rng(1).standard_normal((self.rows, self.columns)).astype("f")

    def expected(self, x: Array) -> Array:
        """Return the result that NumPy computes; it is exact, because halving does not round."""
        for _ in range(self.layers):
            x = np.float32(0.5) * (x + np.roll(x, -1, axis=0)) + self.weights()
        return x

    def text(self) -> str:
        """Return the MLIR module of the program at the `program` stage."""
        matrix = f"memref<{self.rows}x{self.columns}xf32>"
        size = self.rows * self.columns * 4
        start = -(-size // 64) * 64
        programs = "\n".join(self._program(number) for number in range(self.programs))
        return f"""
{self._kernel(matrix)}
func.func @main(%x: {matrix} {{rtask.name = "x"}}, %w: {matrix} {{rtask.constant = "w"}},
                %y: {matrix} {{rtask.name = "y", rtask.output}},
                %arena: memref<{start + size}xi8> {{rtask.arena}}) {{
  %at0 = arith.constant 0 : index
  %at1 = arith.constant {start} : index
  %b0 = memref.view %arena[%at0][] : memref<{start + size}xi8> to {matrix}
  %b1 = memref.view %arena[%at1][] : memref<{start + size}xi8> to {matrix}
  {programs}
  return
}}"""

    def _kernel(self, matrix: str) -> str:
        row = f"memref<{self.columns}xf32, strided<[1], offset: ?>>"
        take = f"[1, {self.columns}] [1, 1] : {matrix} to {row}"
        identity = "affine_map<(i) -> (i)>"
        box = f"sizes = array<i64: 1, {self.columns}>"
        same = f"offsets = affine_map<(d0) -> (d0, 0)>, {box}"
        after = f"offsets = affine_map<(d0) -> ((d0 + 1) mod {self.rows}, 0)>, {box}"
        return f"""
func.func private @step(%id: index, %x: {matrix}, %w: {matrix}, %y: {matrix}) {{
  %next = affine.apply affine_map<(d0) -> ((d0 + 1) mod {self.rows})>(%id)
  %half = arith.constant 0.5 : f32
  %a = memref.subview %x[%id, 0] {take}
  %b = memref.subview %x[%next, 0] {take}
  %c = memref.subview %w[%id, 0] {take}
  %out = memref.subview %y[%id, 0] {take}
  linalg.generic {{indexing_maps = [{identity}, {identity}, {identity}, {identity}],
      iterator_types = ["parallel"]}} ins(%a, %b, %c : {row}, {row}, {row}) outs(%out : {row}) {{
  ^bb0(%p: f32, %q: f32, %r: f32, %o: f32):
    %sum = arith.addf %p, %q : f32
    %mean = arith.mulf %sum, %half : f32
    %result = arith.addf %mean, %r : f32
    linalg.yield %result : f32
  }}
  return
}}
"rtask.kernel"() {{function = @step, num_rtasks = {self.rows} : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = {3 * self.columns} : i64,
  bytes = {16 * self.columns} : i64,
  reads = [{{argument = 0 : i64, {same}}}, {{argument = 0 : i64, {after}}},
           {{argument = 1 : i64, {same}}}],
  writes = [{{argument = 2 : i64, {same}}}]}} : () -> ()"""

    def _program(self, number: int) -> str:
        veus: list[list[str]] = [[] for _ in range(self.num_veus)]
        steps = [0] * self.num_veus
        placed: dict[tuple[int, int], tuple[int, int]] = {}
        share = self.layers // self.programs
        begin = number * share
        end = self.layers if number == self.programs - 1 else begin + share
        for layer in range(begin, end):
            for row in range(self.rows):
                veu = (row * 7 + layer * 5) % self.num_veus
                veus[veu].extend(self._rtask(layer, row, veu, placed))
                placed[layer, row] = (veu, steps[veu])
                steps[veu] += 1
        regions = "\n".join(
            f'"rtask.veu"() ({{\n^bb0:\n{chr(10).join(items)}\n}}) {{id = {veu} : i64}} : () -> ()'
            for veu, items in enumerate(veus)
        )
        return (
            f'"rtask.program"() ({{\n{regions}\n}}) '
            f'{{device = "cpu", num_veus = {self.num_veus} : i64}} : () -> ()'
        )

    def _rtask(
        self, layer: int, row: int, veu: int, placed: dict[tuple[int, int], tuple[int, int]]
    ) -> Iterator[str]:
        before = {placed.get((layer - 1, (row + shift) % self.rows)) for shift in (-1, 0, 1)}
        waits = sorted(wait for wait in before if wait is not None and wait[0] != veu)
        if waits and not self.without_barriers:
            flat = ", ".join(str(number) for wait in waits for number in wait)
            yield f'"rtask.barrier"() {{waits = array<i64: {flat}>}} : () -> ()'
        source = "%x" if layer == 0 else f"%b{(layer - 1) % 2}"
        target = "%y" if layer == self.layers - 1 else f"%b{layer % 2}"
        matrix = f"memref<{self.rows}x{self.columns}xf32>"
        yield (
            f'"rtask.run"({source}, %w, {target}) {{kernel = @step, operator_id = {layer} : i64, '
            f"first = {row} : i64, count = 1 : i64}} : ({matrix}, {matrix}, {matrix}) -> () "
            f'loc("layer{layer}")'
        )

    def input(self, seed: int = 0) -> Array:
        """Return a random input, which ``seed`` determines."""
        return np.random.default_rng(seed).standard_normal((self.rows, self.columns)).astype("f")

    def is_right(self, executable: RunnableModel, seed: int = 0) -> bool:
        """Return whether a run of ``executable`` gives exactly NumPy's result.

        The output buffer is filled with NaN before, so that it holds no earlier result.
        """
        x = self.input(seed)
        y = np.full_like(x, np.nan)
        executable.run({"x": x}, {"y": y})
        return np.array_equal(y, self.expected(x))

    def build(self, straight_line_limit: int = STRAIGHT_LINE_LIMIT) -> Executable:
        """Compile the program for this process."""
        return build(
            self.text(), {1: self.weights()}, self.signature, self.num_veus, straight_line_limit
        )


def build(
    text: str,
    weights: dict[int, Array],
    signature: Signature,
    num_veus: int,
    straight_line_limit: int = STRAIGHT_LINE_LIMIT,
) -> Executable:
    """Compile an MLIR module at the `program` stage for this process.

    Args:
        text: the module.
        weights: constants by the index of the function's argument.
        signature: inputs and outputs.
        num_veus: number of vEUs of the program.
        straight_line_limit: largest number of records for which code has no dispatch loop.
    """
    image, object_file = compile_text(text, weights, signature, num_veus, straight_line_limit)
    library = load_object(object_file)
    code = native_code(library.address, library)
    return Executable(image, code, lambda: link_shared(object_file))


def compile_text(
    text: str,
    weights: dict[int, Array],
    signature: Signature,
    num_veus: int,
    straight_line_limit: int = STRAIGHT_LINE_LIMIT,
) -> tuple[CpuImage, bytes]:
    """Compile an MLIR module at the `program` stage; return its image and its object file.

    The image has everything except the code. The arguments are those of ``build``.
    """
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        image = build_image(module, weights, signature, num_veus)
        lower_program(module, image.program, host_machine(), straight_line_limit)
        return image, emit_object(to_llvm_ir(module), host_machine())
