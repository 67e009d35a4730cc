"""Tests of IREE's code generator: it finds each rTask's box, and reads the text that IREE prints.

The box of a workgroup is found by running it, here by a Python function ``(number, output)`` in
place of IREE's code. The generator's adapter calls the workgroups of an rTask in IREE's library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

from rammer_mlir.codegens.iree.adapter import REFUSED, Call, adapter_ir
from rammer_mlir.codegens.iree.hal_phase import read_call
from rammer_mlir.codegens.iree.probing import Tiles, find_tiles
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine

Array = NDArray[np.generic]


def tiles_of(
    run: Callable[[int, Array], None],
    workgroups: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: type[np.generic] = np.float32,
) -> Tiles:
    return find_tiles(run, workgroups, (np.zeros(shape, dtype), np.zeros(shape, dtype)))


def squares(number: int, output: Array) -> None:
    """Write the box of workgroup ``number``: 4 rows of 3 columns; three boxes are side by side."""
    row, column = 4 * (number // 3), 3 * (number % 3)
    output[row : row + 4, column : column + 3] = 1


def test_boxes_of_two_digits() -> None:
    found = tiles_of(squares, (3, 2, 1), (7, 8))  # the last ones are cut off
    box = [("d0 floordiv 3 mod 2 * 4", 4), ("d0 floordiv 1 mod 3 * 3", 3)]
    assert found == Tiles(1, 6, box)


def test_results_may_equal_a_pattern() -> None:
    def run(number: int, output: Array) -> None:
        output[number] = 0xA5 - 256

    assert tiles_of(run, (5,), (5, 2), np.int8).num_rtasks == 5


def test_several_workgroups_make_a_box() -> None:
    """Three workgroups, each with 5 of 15 elements in rows of 3, make a box of 5 x 3."""

    def run(number: int, output: Array) -> None:
        row, part = divmod(number, 3)
        output[5 * row : 5 * row + 5].reshape(-1)[5 * part : 5 * part + 5] = 1

    found = tiles_of(run, (3, 4), (20, 3))
    assert found == Tiles(3, 4, [("d0 floordiv 1 mod 4 * 5", 5), (0, 3)])


def beyond(number: int, output: Array) -> None:
    """Write row ``number``, and one element three rows further on, which is outside of its box."""
    output[number] = 1
    output[(number + 3) % 8, 1] = 2


def last_beyond(number: int, output: Array) -> None:
    """Write row ``number``; workgroup 7, the last one, also writes an element of the second row."""
    output[number] = 1
    if number == 7:
        output[1, 1] = 2


def dependent(number: int, output: Array) -> None:
    """Write row ``number``, with values that depend on what another workgroup wrote.

    The value is ``number`` for workgroup 0, and while element 0 is zero; otherwise it is -1.
    """
    output[number] = number if number == 0 or output.flat[0] == 0 else -1


def uneven(number: int, output: Array) -> None:
    """Write ``number + 1`` rows after those of the earlier workgroups: boxes of unequal sizes."""
    begin = number * (number + 1) // 2
    output[begin : begin + number + 1] = 1


@pytest.mark.parametrize(
    ("run", "workgroups", "shape"),
    [
        (beyond, (8,), (8, 4)),
        (last_beyond, (8,), (8, 4)),
        (dependent, (8,), (8, 4)),
        (uneven, (3,), (6, 2)),
    ],
)
def test_what_is_not_proven_is_one_rtask(
    run: Callable[[int, Array], None], workgroups: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    assert tiles_of(run, workgroups, shape).box is None


def test_few_rtasks_are_preferred() -> None:
    def run(number: int, output: Array) -> None:
        output[number] = 1

    assert tiles_of(run, (256,), (256, 2)).num_rtasks == 64


TEXT = """
  hal.executable private @region_dispatch_0 {
  }
  util.func private @__region_memoize_apply() -> !hal.command_buffer {
    %c16 = arith.constant 16 : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%0)[%1] workgroups([%c16, %c2, %c1]) bindings([
      (%c1 : index)[%c0, %c64], 
      (%c0 : index)[%c0, %c64]
    ]) flags("None")
  }
  util.func public @region(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %buffer = hal.buffer_view.buffer<%arg0 : !hal.buffer_view> : !hal.buffer
    %buffer_0 = hal.buffer_view.buffer<%arg1 : !hal.buffer_view> : !hal.buffer
    hal.device.queue.execute.indirect<%0 : !hal.device> affinity(%1) commands(%2) bindings([
      (%buffer : !hal.buffer)[%c0, %c64], 
      (%buffer_0 : !hal.buffer)[%c0, %c64]
    ]) flags("None")
  }
"""  # noqa: E501  as IREE prints it


def test_the_text_of_one_dispatch() -> None:
    found = read_call(TEXT, (64, 64))
    assert found == Call("region_dispatch_0_library_query", (16, 2, 1), (1, 0), (64, 64))
    assert Call("query", (4, 3, 2), (), ()).num_workgroups == 24


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("util.func public", "hal.device.queue.alloca\n  util.func public"),
        ("util.func public", "hal.command_buffer.fill_buffer\n  util.func public"),
        ("util.func public", "hal.command_buffer.dispatch<\n  util.func public"),
        ("(%c1 : index)[%c0, %c64]", "(%c1 : index)[%c64, %c64]"),
        ("(%c1 : index)[%c0, %c64]", "(%c2 : index)[%c0, %c64]"),
        ("workgroups([%c16, %c2", "workgroups([%c16, %other"),
        ("<%arg1 : !hal.buffer_view>", "<%global : !hal.buffer_view>"),
        ("flags", "constants([%c1]) flags"),
        ("execute.indirect", "execute"),
    ],
)
def test_anything_else_is_refused(old: str, new: str) -> None:
    assert old in TEXT
    assert read_call(TEXT.replace(old, new, 1), (64, 64)) is None


LIBRARY = """
@functions = constant [1 x ptr] [ptr @function]
@attributes = constant {{ i64, i16, i8, i8 }} {{ i64 0, i16 {pages}, i8 0, i8 2 }}
@library = constant {{ ptr, i64, ptr, i64, ptr, ptr }} {{
  ptr null, i64 0, ptr null, i64 1, ptr @functions, ptr @attributes }}
define ptr @query(i32 %version, ptr %environment) {{
  %is = icmp eq i32 %version, {version}
  %found = select i1 %is, ptr @library, ptr null
  ret ptr %found
}}
define i32 @function(ptr %environment, ptr %dispatch, ptr %workgroup) {{
  %x = load i32, ptr %workgroup
  %y.at = getelementptr i8, ptr %workgroup, i64 4
  %y = load i32, ptr %y.at
  %bindings.at = getelementptr i8, ptr %dispatch, i64 32
  %bindings = load ptr, ptr %bindings.at
  %second.at = getelementptr i8, ptr %bindings, i64 8
  %second = load ptr, ptr %second.at
  %place = getelementptr [4 x i32], ptr %second, i32 %y, i32 %x
  %old = load i32, ptr %place
  %new = add i32 %old, 1
  store i32 %new, ptr %place
  %fails = icmp eq i32 %y, 2
  %status = select i1 %fails, i32 9, i32 0
  ret i32 %status
}}
"""


@pytest.mark.parametrize(
    ("version", "pages", "rtask", "status", "touched"),
    [
        (6, 0, 0, 0, [0, 1]),
        (6, 0, 3, 0, [6, 7]),
        (6, 0, 4, 9, [8]),
        (5, 0, 0, REFUSED, []),
        (6, 1, 0, REFUSED, []),
    ],
)
def test_the_adapter(version: int, pages: int, rtask: int, status: int, touched: list[int]) -> None:
    """An rTask calls its two workgroups, or only the first one if that fails.

    A library of another version, or that needs local memory, is refused without a call.
    """
    machine = host_machine()
    call = Call("query", (4, 3, 1), (1, 0), (48, 48))
    adapter = emit_object(adapter_ir("region", call, 2), machine)
    library = emit_object(LIBRARY.format(version=version, pages=pages), machine)
    code = load_object(adapter, library)
    pointer = ctypes.c_void_p
    region = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, pointer, pointer)
    first, second = np.zeros(12, np.int32), np.zeros(12, np.int32)
    found = region(code.address("region"))(rtask, first.ctypes.data, second.ctypes.data)
    assert found == status
    assert np.nonzero(first)[0].tolist() == touched  # the second binding is the first operand
    assert not second.any()


def test_the_adapter_is_valid() -> None:
    text = adapter_ir("region", Call("query", (1, 1, 1), (0,), (4,)), 1)
    llvm.parse_assembly(text).verify()
