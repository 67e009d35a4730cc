"""Programs that apply one operation to every element, for any shape and element type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.executable import Executable
from tests.runtime.ring import build, compile_text


@dataclass(frozen=True)
class Elementwise:
    """A program ``y = body(x)`` with an rTask for each index of the first dimension.

    A tensor of rank 0 has one rTask, a tensor without elements none.

    Attributes:
        shape: shape of ``x`` and ``y``.
        element: the MLIR element type.
        dtype: the same type in NumPy.
        body: MLIR operations that compute ``%q`` from an element ``%p``.
    """

    shape: tuple[int, ...]
    element: str
    dtype: np.dtype[np.generic]
    body: str

    @property
    def signature(self) -> Signature:
        """The signature: an input ``x`` and an output ``y`` of the same type."""
        spec = self.shape, self.dtype
        return Signature((TensorSpec("x", *spec),), (TensorSpec("y", *spec),))

    @property
    def _num_rtasks(self) -> int:
        if 0 in self.shape:
            return 0
        return self.shape[0] if self.shape else 1

    def text(self, num_veus: int = 2) -> str:
        """Return the MLIR module at the `program` stage; vEUs get the rTasks in turn."""
        buffer = f"memref<{'x'.join([*map(str, self.shape), self.element])}>"
        rtasks = self._num_rtasks
        veus = "\n".join(
            '"rtask.veu"() ({\n^bb0:\n'
            + "".join(self._run(rtask, buffer) for rtask in range(veu, rtasks, num_veus))
            + f"}}) {{id = {veu} : i64}} : () -> ()"
            for veu in range(num_veus)
        )
        return f"""
{self._kernel(buffer) if rtasks else ""}
func.func @main(%x: {buffer} {{rtask.name = "x"}}, %y: {buffer} {{rtask.name = "y", rtask.output}},
                %arena: memref<64xi8> {{rtask.arena}}) {{
  "rtask.program"() ({{
    {veus}
  }}) {{device = "cpu", num_veus = {num_veus} : i64}} : () -> ()
  return
}}"""

    @staticmethod
    def _run(rtask: int, buffer: str) -> str:
        return (
            f'"rtask.run"(%x, %y) {{kernel = @apply, operator_id = 0 : i64, first = {rtask} : i64, '
            f'count = 1 : i64}} : ({buffer}, {buffer}) -> () loc("apply")\n'
        )

    def _kernel(self, buffer: str) -> str:
        rank = len(self.shape)
        sizes = [1, *self.shape[1:]] if self.shape else []
        row, views = self._views(buffer, sizes)
        names = ("%x", "%y") if views else ("%a", "%b")
        dims = ", ".join(f"d{n}" for n in range(rank))
        identity = f"affine_map<({dims}) -> ({dims})>"
        box = ", ".join(["d0" if n == 0 else "0" for n in range(rank)])
        extents = ": " + ", ".join(map(str, sizes)) if sizes else ""
        access = f"offsets = affine_map<(d0) -> ({box})>, sizes = array<i64{extents}>"
        parallel = ", ".join(['"parallel"'] * rank)
        return f"""
func.func private @apply(%id: index, {names[0]}: {buffer}, {names[1]}: {buffer}) {{
{views}  linalg.generic {{indexing_maps = [{identity}, {identity}], iterator_types = [{parallel}]}}
      ins(%a : {row}) outs(%b : {row}) {{
  ^bb0(%p: {self.element}, %o: {self.element}):
    {self.body}
    linalg.yield %q : {self.element}
  }}
  return
}}
"rtask.kernel"() {{function = @apply, num_rtasks = {self._num_rtasks} : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 1 : i64, bytes = 1 : i64,
  reads = [{{argument = 0 : i64, {access}}}],
  writes = [{{argument = 1 : i64, {access}}}]}} : () -> ()"""

    def _views(self, buffer: str, sizes: Sequence[int]) -> tuple[str, str]:
        """Return the memref type of the row of an rTask, and MLIR text that takes the rows.

        The text defines ``%a`` as the row of ``%x``, and ``%b`` as the row of ``%y``. ``sizes`` are
        the sizes of the row. For a scalar, the type is ``buffer``, and the text is empty.
        """
        if not self.shape:
            return buffer, ""
        strides = [int(np.prod(self.shape[n + 1 :])) for n in range(len(self.shape))]
        row = (
            f"memref<{'x'.join([*map(str, sizes), self.element])}, "
            f"strided<[{', '.join(map(str, strides))}], offset: ?>>"
        )
        offsets = ", ".join(["%id", *["0"] * (len(sizes) - 1)])
        ones = ", ".join(["1"] * len(sizes))
        take = f"[{offsets}] [{', '.join(map(str, sizes))}] [{ones}] : {buffer} to {row}"
        return row, f"  %a = memref.subview %x{take}\n  %b = memref.subview %y{take}\n"

    def build(self, num_veus: int = 2) -> Executable:
        """Compile the program for this process."""
        return build(self.text(num_veus), {}, self.signature, num_veus)

    def compile(self, num_veus: int = 2) -> tuple[CpuImage, bytes]:
        """Compile the program; return its image, which lacks the code, and its object file."""
        return compile_text(self.text(num_veus), {}, self.signature, num_veus)
