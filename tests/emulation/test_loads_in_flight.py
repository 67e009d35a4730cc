"""Element-wise operations and sums over rows load several vectors at once, on random shapes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest
from mapped_kernels import compile_mapped
from numpy.typing import NDArray

from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.emulation.device.traces import warp_accesses

THREADS = 128
DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "f64": np.float64}

Array = NDArray[Any]


@dataclass(frozen=True)
class Elements:
    """A test case: an rKernel that scales and adds elements or, if it has ``pieces``, adds sums.

    Without ``pieces``, it computes ``y[.., j] = x[.., j] * scale[j] + y[.., j]``. Otherwise it adds
    to each element of y the sum of x over the dimensions ``pieces``.

    Attributes:
        shape: shape of y; x begins with these dimensions.
        pieces: sizes of the other dimensions of x.
        element: element type of all buffers.
        alignment: bytes that divide the addresses of all buffers.
    """

    shape: tuple[int, ...]
    pieces: tuple[int, ...] = ()
    element: str = "f32"
    alignment: int = 16

    def memref(self, *sizes: int) -> str:
        """Return the text of a memref type of these sizes."""
        return f"memref<{''.join(f'{size}x' for size in sizes)}{self.element}>"

    @property
    def types(self) -> list[str]:
        """Return the memref types of x, the scale and y, as text."""
        return [
            self.memref(*self.shape, *self.pieces),
            self.memref(*self.shape[-1:]),
            self.memref(*self.shape),
        ]

    @property
    def source(self) -> str:
        """Return MLIR text of the rKernel."""
        x, scale, y = self.types
        kind = self.element
        aligned = f"{{rtask.alignment = {self.alignment} : i64}}"
        dims = [f"d{n}" for n in range(len(self.shape))]
        summed = [f"k{n}" for n in range(len(self.pieces))]
        loops = ", ".join([*dims, *summed])
        maps = [loops, ", ".join(dims[-1:]), ", ".join(dims)]
        if self.pieces:
            del maps[1]
        kinds = ['"parallel"'] * len(dims) + ['"reduction"'] * len(summed)
        inputs = f"%x : {x}" if self.pieces else f"%x, %scale : {x}, {scale}"
        body = f"""^bb0(%a: {kind}, %s: {kind}, %c: {kind}):
    %p = arith.mulf %a, %s : {kind}
    %r = arith.addf %p, %c : {kind}"""
        if self.pieces:
            body = f"^bb0(%a: {kind}, %c: {kind}):\n    %r = arith.addf %c, %a : {kind}"
        return f"""
func.func @kernel(%id: index, %x: {x} {aligned}, %scale: {scale} {aligned}, %y: {y} {aligned}) {{
  linalg.generic {{
      indexing_maps = [{", ".join(f"affine_map<({loops}) -> ({map_})>" for map_ in maps)}],
      iterator_types = [{", ".join(kinds)}]}} ins({inputs}) outs(%y : {y}) {{
  {body}
    linalg.yield %r : {kind}
  }}
  return
}}"""


def run(case: Elements, *, traced: bool = False) -> tuple[Array, Array, Any]:
    """Emulate the rKernel on random numbers; return the found and expected output and the trace.

    Accesses are in the trace only if ``traced``; else they are checked.
    """
    rng = np.random.default_rng(prod(case.shape))
    dtype = DTYPES[case.element]
    x, scale, y = (
        rng.standard_normal(sizes).astype(dtype)
        for sizes in ((*case.shape, *case.pieces), case.shape[-1:], case.shape)
    )
    wide = x.astype(np.float64)
    last = tuple(range(len(case.shape), len(case.shape) + len(case.pieces)))
    expected = y.astype(np.float64) + (wide.sum(last) if last else wide * scale)
    kernel, mapped = compile_mapped(
        case.source, case.types, THREADS, lambda kernel: None, traced=traced
    )
    scratch = np.zeros(mapped.scratch_bytes, np.uint8)
    trace = launch(kernel, [x, scale, y, scratch], Grid(1, THREADS, 32))
    return y.astype(np.float64), expected, trace


CASES = [
    Elements((32, 64)),  # four runs of four elements at a time
    Elements((8, 96)),  # fewer runs than threads could take at a time
    Elements((7, 13)),  # nothing divides
    Elements((640,)),
    Elements((6, 8, 40), element="f16"),
    Elements((6, 8, 40), element="f64"),
    Elements((32, 64), alignment=4),
    Elements((16,), (4, 64)),  # eight lanes share a sum
    Elements((4,), (512,)),
    Elements((4,), (2, 6, 8)),
    Elements((3,), (197,)),
    Elements((4,), (512,), element="f64"),
    Elements((4,), (512,), alignment=4),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_elements(case: Elements) -> None:
    found, expected, _ = run(case)
    tolerance = 2e-2 if case.element == "f16" else 1e-4
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_elements(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def sizes(count: int) -> tuple[int, ...]:
        return tuple(int(2 ** rng.integers(6) * rng.choice([1, 1, 3])) for _ in range(count))

    pieces = sizes(int(rng.integers(3)))
    shape = sizes(1) if pieces else sizes(int(rng.integers(1, 4)))
    case = Elements(shape, pieces, str(rng.choice(["f32", "f64"])), int(rng.choice([8, 16])))
    found, expected, _ = run(case)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("case", [Elements((32, 64)), Elements((16,), (4, 64))], ids=str)
def test_warps_read_whole_sectors(case: Elements) -> None:
    """Each element is loaded once, 16 bytes by a lane; four loads precede the first use."""
    *_, trace = run(case, traced=True)
    wide = [one for one in warp_accesses(trace, 32) if one.access.num_bytes == 16]
    read = [one for one in wide if one.sectors == prod((*case.shape, *case.pieces)) * 4 // 32 // 4]
    assert len(read) >= 4
    assert all(one.sectors == one.needed for one in read)
