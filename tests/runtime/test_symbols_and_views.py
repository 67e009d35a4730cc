"""Tests that rKernels may have any name, and views of buffers any static offset.

The programs are written by hand.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import PassError
from rammer_mlir.programs.signature import Signature, TensorSpec
from tests.runtime.ring import Array, Ring, build

TABLE, STRAIGHT_LINE = 0, 1_000_000

RING = Ring(2, layers=4)


def long_ring(kernel: str) -> str:
    """Return the text of a ring program (``ring.py``) with a long rKernel of the name ``kernel``.

    The rKernel is too long to be inlined, so that the program calls it by name.
    """
    text = RING.text().replace("@step", f"@{kernel}")
    statement = text[text.index("  linalg.generic") : text.index("  return\n}")]
    return text.replace(statement, statement * 30)


def compile_save_load(kernel: str, path: Path) -> list[bool]:
    """Compile the long ring with the rKernel's name ``kernel``, save it to ``path``, and load it.

    Return whether the results of the compiled and of the loaded program are exact.
    """
    with build(long_ring(kernel), {1: RING.weights()}, RING.signature, 2, TABLE) as built:
        results = [RING.is_right(built, 0)]
        built.save(path)
    with rammer_mlir.load(path) as loaded:
        return [*results, RING.is_right(loaded, 1)]


@pytest.mark.parametrize("kernel", ["free", "sin", "memcpy", "rammer_wait"])
def test_an_rkernel_may_have_a_name_that_the_process_uses(kernel: str, tmp_path: Path) -> None:
    """An rKernel with the name of a function of libc or of the runtime is called correctly.

    The test runs in a separate process, since calling the wrong function would crash it.
    """
    code = (
        "import json, sys\nfrom pathlib import Path\n"
        "from tests.runtime.test_symbols_and_views import compile_save_load\n"
        "print(json.dumps(compile_save_load(sys.argv[1], Path(sys.argv[2]))))\n"
    )
    command = [sys.executable, "-c", code, kernel, str(tmp_path / "m.rammer")]
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == [True, True]


MATRIX = "memref<4x4xf32>"
LINE = "memref<4xf32, strided<[{stride}], offset: {offset}>>"


def doubling(source: str, target: str, views: str, types: tuple[str, str]) -> str:
    """Return the text of a program that doubles the view ``%a`` of ``%x`` into ``%b`` of ``%y``.

    Args:
        source: type of the rKernel's input buffer.
        target: type of the rKernel's output buffer.
        views: MLIR operations that define ``%a`` and ``%b``.
        types: types of ``%a`` and of ``%b``.
    """
    box = "offsets = affine_map<(d0) -> (0)>, sizes = array<i64: 4>"
    return f"""
func.func private @double(%id: index, %x: {source}, %y: {target}) {{
  linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%x : {source}) outs(%y : {target}) {{
  ^bb0(%p: f32, %o: f32):
    %q = arith.addf %p, %p : f32
    linalg.yield %q : f32
  }}
  return
}}
"rtask.kernel"() {{function = @double, num_rtasks = 1 : i64, threads = 1 : i64,
  shared_memory = 0 : i64, barriers = 0 : i64, operations = 4 : i64, bytes = 32 : i64,
  reads = [{{argument = 0 : i64, {box}}}], writes = [{{argument = 1 : i64, {box}}}]}} : () -> ()
func.func @main(%x: {MATRIX} {{rtask.name = "x"}}, %y: {MATRIX} {{rtask.name = "y", rtask.output}},
                %arena: memref<64xi8> {{rtask.arena}}) {{
  {views}
  "rtask.program"() ({{
    "rtask.veu"() ({{
      "rtask.run"(%a, %b) {{kernel = @double, operator_id = 0 : i64, first = 0 : i64,
                           count = 1 : i64}} : ({types[0]}, {types[1]}) -> ()
    }}) {{id = 0 : i64}} : () -> ()
  }}) {{device = "cpu", num_veus = 1 : i64}} : () -> ()
  return
}}"""


def strided(offset: int | str, stride: int = 1) -> str:
    """Return the memref type of four elements of a matrix.

    ``offset`` and ``stride`` are in elements.
    """
    return LINE.format(stride=stride, offset=offset)


def cast(name: str, root: str, offset: int, stride: int = 1) -> str:
    """Return MLIR text that defines ``%name`` as a view of four elements of the matrix ``%root``.

    ``offset`` is the index of the first element, and ``stride`` the distance of the elements.
    """
    return (
        f"%{name} = memref.reinterpret_cast %{root} to offset: [{offset}], sizes: [4], "
        f"strides: [{stride}] : {MATRIX} to {strided(offset, stride)}"
    )


def run_doubling(text: str, limit: int) -> tuple[Array, Array]:
    """Run a program of ``doubling`` on the numbers 0 to 15; return the input and the output.

    Both are flattened. Elements of the output that the program does not write are -1.
    """
    spec = (4, 4), np.dtype(np.float32)
    signature = Signature((TensorSpec("x", *spec),), (TensorSpec("y", *spec),))
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    y = np.full_like(x, -1)
    with build(text, {}, signature, 1, limit) as executable:
        executable.run({"x": x}, {"y": y})
    return x.reshape(-1), y.reshape(-1)


@pytest.mark.parametrize("limit", [TABLE, STRAIGHT_LINE], ids=["table", "straight-line"])
@pytest.mark.parametrize("stride", [1, 4], ids=["row", "column"])
@pytest.mark.parametrize("inside", [(0, 0), (3, 1), (2, 0)], ids=["start", "own", "mixed"])
def test_views_may_begin_anywhere(limit: int, stride: int, inside: tuple[int, int]) -> None:
    """The offset of a view is applied once, whether or not the rKernel's buffer types have it.

    ``inside`` has the offsets in the types of the input and of the output in the rKernel.
    """
    text = doubling(
        strided(inside[0], stride),
        strided(inside[1], stride),
        f"{cast('a', 'x', 3, stride)}\n  {cast('b', 'y', 1, stride)}",
        (strided(3, stride), strided(1, stride)),
    )
    x, y = run_doubling(text, limit)
    expected = np.full_like(y, -1)
    expected[1 : 1 + 4 * stride : stride] = 2 * x[3 : 3 + 4 * stride : stride]
    assert np.array_equal(y, expected)


def test_an_offset_that_is_not_static_is_refused() -> None:
    views = (
        f"{cast('s', 'x', 4)}\n  %a = memref.cast %s : {strided(4)} to {strided('?')}\n  "
        f"{cast('b', 'y', 0)}"
    )
    text = doubling(strided("?"), strided(0), views, (strided("?"), strided(0)))
    with pytest.raises(PassError, match=r"@double uses .*: expected a static offset"):
        run_doubling(text, TABLE)
