"""Asynchronous copies to shared memory are complete at their wait; missing waits are faults."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import SHARED, Array, run

from rammer_mlir.errors import EmulationError, UnsupportedError

RNG = np.random.default_rng(11)

REVERSE = f"""
gpu.func @reverse(%x: memref<3x256xf32>, %y: memref<3x256xf32>, %taken: index)
    workgroup(%s: memref<256xf32, {SHARED}>) kernel {{
  %b = gpu.block_id x
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c255 = arith.constant 255 : index
  %first = arith.muli %t, %c4 : index
  BEFORE
  %copy = nvgpu.device_async_copy %x[%b, %first], %s[%first], 4, %taken {{bypassL1}}
      : memref<3x256xf32> to memref<256xf32, {SHARED}> loc("fetch")
  %group = nvgpu.device_async_create_group %copy
  WAIT
  AFTER
  %own = arith.subi %c255, %first : index
  scf.for %i = %c0 to %c4 step %step {{
    %r = arith.subi %own, %i : index
    %w = memref.load %s[%r] : memref<256xf32, {SHARED}> loc("mirror")
    %to = arith.addi %first, %i : index
    memref.store %w, %y[%b, %to] : memref<3x256xf32>
  }}
  END
  gpu.return
}}
"""
"""Each block of 64 lanes reverses a row; a copy reads ``taken`` of the four numbers it writes."""

_WAIT = "nvgpu.device_async_wait %group {numGroups = 0 : i32}"


def kernel(wait: str = _WAIT, after: str = "gpu.barrier", before: str = "", end: str = "") -> str:
    """Return ``REVERSE``, MLIR text of a kernel, with these operations in the places of its words.

    Args:
        wait: the wait for the copy.
        after: the operations after the wait: a block barrier by default.
        before: operations before the copy.
        end: operations before the return.
    """
    text = REVERSE.replace("BEFORE", "%step = arith.constant 1 : index\n" + before)
    return text.replace("WAIT", wait).replace("AFTER", after).replace("END", end)


def rows() -> Array:
    """Return random f32 rows [3, 256]."""
    return RNG.standard_normal((3, 256)).astype(np.float32)


def fault_of(text: str) -> str:
    """Run a variant of ``REVERSE``, which must cause a fault; return the fault's message."""
    with pytest.raises(EmulationError) as raised:
        run(text, [rows(), rows(), 4], 3, 64)
    return str(raised.value)


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("taken", [4, 3, 0])
def test_copies_arrive_and_fill_with_zeros(taken: int, checked: bool) -> None:
    x, y = rows(), rows()
    run(kernel(), [x, y, taken], 3, 64, checked=checked)
    expected = x.copy()
    expected.reshape(3, 64, 4)[:, :, taken:] = 0
    np.testing.assert_array_equal(y, expected[:, ::-1])


def test_reading_before_the_wait() -> None:
    message = fault_of(kernel(wait="", after="gpu.barrier", end=_WAIT))
    assert message.startswith("kernel 'reverse': unwritten memory: block 0, lane")
    assert "(mirror) reads shared memory of block 0 at index" in message


def test_waiting_for_all_but_the_newest_group_is_too_little() -> None:
    wait = "nvgpu.device_async_wait %group {numGroups = 1 : i32}"
    assert "unwritten memory" in fault_of(kernel(wait=wait, end=_WAIT))


def test_a_wait_counts_for_the_own_lane_only() -> None:
    assert "unwritten memory" in fault_of(kernel(after=""))


def test_ending_without_a_wait() -> None:
    load = f'memref.load %s[%r] : memref<256xf32, {SHARED}> loc("mirror")'
    message = fault_of(kernel(wait="", after="").replace(load, "arith.constant 1.0 : f32"))
    assert message == (
        "kernel 'reverse': asynchronous copy: block 0, lane 0 ends before its copies; wait for them"
    )


def test_overwriting_what_others_still_read() -> None:
    again = f"""
  %again = nvgpu.device_async_copy %x[%b, %first], %s[%first], 4, %taken {{bypassL1}}
      : memref<3x256xf32> to memref<256xf32, {SHARED}> loc("fetch again")
  %second = nvgpu.device_async_create_group %again
  nvgpu.device_async_wait %second {{numGroups = 0 : i32}}"""
    message = fault_of(kernel(end=again))
    assert "data race" in message or "unwritten memory" in message
    assert "(fetch again)" in message or "(mirror)" in message
    x, y = rows(), rows()
    run(kernel(end=f"gpu.barrier\n{again}"), [x, y, 4], 3, 64)
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_copies_stay_within_their_dimensions() -> None:
    text = kernel().replace("%x[%b, %first]", "%x[%row, %first]")
    text = text.replace("%step = ", "%row = arith.constant 3 : index\n%step = ")
    message = fault_of(text)
    assert message.startswith("kernel 'reverse': out of bounds: block 0, lane 0,")
    assert "'nvgpu.device_async_copy' (fetch) uses index 3 in dimension 0" in message


def test_copies_are_aligned() -> None:
    text = kernel().replace("%s[%first], 4", "%s[%odd], 4")
    message = fault_of(text.replace("%step = ", "%odd = arith.constant 2 : index\n%step = "))
    assert message.startswith("kernel 'reverse': misaligned: block 0, lane 0,")
    assert message.endswith("at index 2 of 256: expected a multiple of 16 bytes")


def test_copies_from_shared_memory_are_refused() -> None:
    """An asynchronous copy from shared memory is refused: a GPU would read device memory."""
    again = f"""
  %again = nvgpu.device_async_copy %s[%first], %s[%c0], 4
      : memref<256xf32, {SHARED}> to memref<256xf32, {SHARED}> loc("shared")
  %second = nvgpu.device_async_create_group %again"""
    with pytest.raises(UnsupportedError, match=r'"shared".*expected an asynchronous copy from dev'):
        run(kernel(end=again), [rows(), rows(), 4], 3, 64)
