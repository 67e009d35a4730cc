"""Tests that a module's initialized variables are constants until a kernel stores to them."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_interpreter.driver import PtxDriver
from ptx_interpreter.faults import PtxFault

from rammer_mlir.runtime.gpu.driver import Argument, Launch

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b32 table[4] = {3, 1, 4, 1};
.visible .entry k(.param .u64 out)
.maxntid 32, 1, 1
{
  .reg .pred %p<9>;
  .reg .b32 %r<9>;
  .reg .b64 %d<9>;
  ld.param.b64 %d1, [out];
  mov.u32 %r0, %tid.x;
  and.b32 %r2, %r0, 3;
  mul.wide.u32 %d2, %r2, 4;
  mov.b64 %d3, table;
  add.s64 %d4, %d3, %d2;
  add.s64 %d5, %d1, %d2;
  setp.gt.u32 %p1, %r0, 3;
  @%p1 bra $end;
  BODY
$end:
  ret;
}
"""
LOAD = "ld.global.nc.b32 %r1, [%d4];"
STORE = "st.global.b32 [%d4], %r0;"


def run(body: str) -> list[int]:
    """Execute ``body`` with four threads, and return the four words at ``%d1``.

    ``%d4`` and ``%d5`` are the addresses of a thread's word in the variable and in the output.
    """
    device = PtxDriver("sm_90")
    loaded = device.load(TEXT.replace("BODY", body).encode(), "ptx", "k")
    out = Argument(device.allocate(16), 16, "out", "written")
    device.launch(loaded, Launch(1, 32, False), [out], 0)
    found = np.zeros(4, np.int32)
    device.download(found, out.address, 0)
    return found.tolist()


def test_an_initialized_variable_is_read_as_constant() -> None:
    assert run(f"{LOAD}\nst.global.b32 [%d5], %r1;") == [3, 1, 4, 1]


def test_a_variable_that_is_stored_to_is_no_constant() -> None:
    load = LOAD.replace(".nc", "")
    assert run(f"{STORE}\n{load}\nst.global.b32 [%d5], %r1;") == [0, 1, 2, 3]
    with pytest.raises(PtxFault, match="read as constant, but not read-only"):
        run(f"{STORE}\n{LOAD}")
    with pytest.raises(PtxFault, match="written, but read-only"):
        run(f"{LOAD}\n{STORE}")
