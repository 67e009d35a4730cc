"""GPU kernels written by hand, right and wrong ones, and a way to run them on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.codegen.gpu_to_func import kernel_names
from rammer_mlir.emulation.codegen.kernel import compile_kernel
from rammer_mlir.emulation.device.emulator import Grid, launch

Array = np.ndarray[Any, np.dtype[Any]]


def run(
    text: str,
    arguments: Sequence[Array | int | float],
    blocks: int,
    threads: int,
    *,
    subgroup: int = 32,
    checked: bool = True,
    unwritten: Sequence[int] = (),
    idle_rounds: int = 100,
) -> None:
    """Compile the only kernel of a module, and launch it on ``blocks`` times ``threads`` threads.

    ``checked`` is an option of ``compile_kernel``; ``unwritten`` and ``idle_rounds`` are those of
    ``launch``.
    """
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"gpu.module @m {{\n{text}\n}}")
        kernel = compile_kernel(module, kernel_names(module)[0], checked=checked)
    grid = Grid(blocks, threads, subgroup)
    launch(kernel, arguments, grid, unwritten=unwritten, idle_rounds=idle_rounds)


SHARED = "#gpu.address_space<workgroup>"

REVERSE = f"""
gpu.func @reverse(%x: memref<4x64xf32>, %y: memref<4x64xf32>)
    workgroup(%s: memref<64xf32, {SHARED}>) kernel {{
  %b = gpu.block_id x
  %t = gpu.thread_id x
  %c63 = arith.constant 63 : index
  %v = memref.load %x[%b, %t] : memref<4x64xf32>
  memref.store %v, %s[%t] : memref<64xf32, {SHARED}>
  BARRIER
  %r = arith.subi %c63, %t : index
  %w = memref.load %s[%r] : memref<64xf32, {SHARED}> loc("mirror")
  memref.store %w, %y[%b, %t] : memref<4x64xf32>
  gpu.return
}}
"""
"""Each block reverses its row through shared memory."""

SUM = f"""
gpu.func @sum(%x: memref<3x128xf32>, %y: memref<3xf32>)
    workgroup(%s: memref<4xf32, {SHARED}>) kernel {{
  %b = gpu.block_id x
  %t = gpu.thread_id x
  %lane = gpu.lane_id
  %group = gpu.subgroup_id : index
  %groups = gpu.num_subgroups : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %size = gpu.subgroup_size : index
  %size32 = arith.index_cast %size : index to i32
  %half = arith.shrui %size, %c1 : index
  %v0 = memref.load %x[%b, %t] : memref<3x128xf32>
  %d0 = arith.index_cast %half : index to i32
  %one = arith.constant 1 : i32
  %none = arith.constant 0 : i32
  %r:2 = scf.while (%v = %v0, %d = %d0) : (f32, i32) -> (f32, i32) {{
    %more = arith.cmpi ugt, %d, %none : i32
    scf.condition(%more) %v, %d : f32, i32
  }} do {{
  ^bb0(%v: f32, %d: i32):
    %o, %valid = gpu.shuffle xor %v, %d, %size32 : f32
    %sum = arith.addf %v, %o : f32
    %next = arith.shrui %d, %one : i32
    scf.yield %sum, %next : f32, i32
  }}
  %first = arith.cmpi eq, %lane, %c0 : index
  scf.if %first {{
    memref.store %r#0, %s[%group] : memref<4xf32, {SHARED}>
  }}
  gpu.barrier
  %leader = arith.cmpi eq, %t, %c0 : index
  scf.if %leader {{
    %total = scf.for %i = %c0 to %groups step %c1 iter_args(%a = %zero) -> f32 {{
      %p = memref.load %s[%i] : memref<4xf32, {SHARED}>
      %n = arith.addf %a, %p : f32
      scf.yield %n : f32
    }}
    memref.store %total, %y[%b] : memref<3xf32>
  }}
  gpu.return
}}
"""
"""Each block sums 128 numbers: shuffles in a subgroup, shared memory between them."""

SHUFFLE = """
gpu.func @shuffle(%x: memref<64xELEMENT>, %y: memref<64xELEMENT>, %z: memref<64xi32>) kernel {
  %t = gpu.thread_id x
  %width = arith.constant WIDTH : i32
  %offset = arith.constant OFFSET : i32
  %v = memref.load %x[%t] : memref<64xELEMENT>
  %o, %valid = gpu.shuffle MODE %v, %offset, %width : ELEMENT
  %n = arith.extui %valid : i1 to i32
  memref.store %o, %y[%t] : memref<64xELEMENT>
  memref.store %n, %z[%t] : memref<64xi32>
  gpu.return
}
"""
"""One shuffle; what each lane got, and whether it was valid."""

MATMUL = f"""
gpu.func @matmul(%a: memref<32x48xf32>, %b: memref<48x24xf32>, %c: memref<32x24xf32>)
    workgroup(%sa: memref<8x8xf32, {SHARED}>, %sb: memref<8x8xf32, {SHARED}>) kernel {{
  %block = gpu.block_id x
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c8 = arith.constant 8 : index
  %c48 = arith.constant 48 : index
  %zero = arith.constant 0.0 : f32
  %bi = arith.divui %block, %c3 : index
  %bj = arith.remui %block, %c3 : index
  %ti = arith.divui %t, %c8 : index
  %tj = arith.remui %t, %c8 : index
  %i0 = arith.muli %bi, %c8 : index
  %j0 = arith.muli %bj, %c8 : index
  %i = arith.addi %i0, %ti : index
  %j = arith.addi %j0, %tj : index
  %sum = scf.for %k0 = %c0 to %c48 step %c8 iter_args(%outer = %zero) -> f32 {{
    %ka = arith.addi %k0, %tj : index
    %kb = arith.addi %k0, %ti : index
    %va = memref.load %a[%i, %ka] : memref<32x48xf32>
    %vb = memref.load %b[%kb, %j] : memref<48x24xf32>
    memref.store %va, %sa[%ti, %tj] : memref<8x8xf32, {SHARED}>
    memref.store %vb, %sb[%ti, %tj] : memref<8x8xf32, {SHARED}>
    gpu.barrier
    %inner = scf.for %k = %c0 to %c8 step %c1 iter_args(%acc = %outer) -> f32 {{
      %x = memref.load %sa[%ti, %k] : memref<8x8xf32, {SHARED}>
      %y = memref.load %sb[%k, %tj] : memref<8x8xf32, {SHARED}>
      %m = arith.mulf %x, %y : f32
      %n = arith.addf %acc, %m : f32
      scf.yield %n : f32
    }}
    BARRIER
    scf.yield %inner : f32
  }}
  memref.store %sum, %c[%i, %j] : memref<32x24xf32>
  gpu.return
}}
"""
"""A product in tiles of 8 by 8 through shared memory; 12 blocks of 64 lanes."""

CHAIN = """
func.func private @counter(%steps: memref<16x16xi32>, %block: index) -> !llvm.ptr {
  %base = memref.extract_aligned_pointer_as_index %steps : memref<16x16xi32> -> index
  %c64 = arith.constant 64 : index
  %offset = arith.muli %block, %c64 : index
  %address = arith.addi %base, %offset : index
  %bits = arith.index_cast %address : index to i64
  %pointer = llvm.inttoptr %bits : i64 to !llvm.ptr
  return %pointer : !llvm.ptr
}
gpu.func @chain(%x: memref<16x32xf32>, %steps: memref<16x16xi32>, %goal: i32) kernel {
  %b = gpu.block_id x
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c31 = arith.constant 31 : index
  %one = arith.constant 1.0 : f32
  %leader = arith.cmpi eq, %t, %c0 : index
  %follows = arith.cmpi ne, %b, %c0 : index
  scf.if %follows {
    %before = arith.subi %b, %c1 : index
    scf.if %leader {
      %p = func.call @counter(%steps, %before) : (memref<16x16xi32>, index) -> !llvm.ptr
      scf.while : () -> () {
        %now = LOAD
        %less = arith.cmpi slt, %now, %goal : i32
        scf.condition(%less)
      } do {
        scf.yield
      } loc("await")
    }
    gpu.barrier
    %mirror = arith.subi %c31, %t : index
    %v = memref.load %x[%before, %mirror] : memref<16x32xf32> loc("consume")
    %w = arith.addf %v, %one : f32
    memref.store %w, %x[%b, %t] : memref<16x32xf32> loc("produce")
  }
  PUBLISH_BARRIER
  scf.if %leader {
    %own = func.call @counter(%steps, %b) : (memref<16x16xi32>, index) -> !llvm.ptr
    STORE
  }
  gpu.return
}
"""
"""Each block mirrors the row of the block before and adds one; blocks wait on step counters."""

_ACQUIRE = (
    'llvm.load %p atomic syncscope("device") acquire {alignment = 4 : i64} : !llvm.ptr -> i32 '
    'loc("await")'
)
_RELEASE = (
    'llvm.store %goal, %own atomic syncscope("device") release {alignment = 4 : i64} '
    ": i32, !llvm.ptr"
)


def chain(load: str = _ACQUIRE, store: str = _RELEASE, barrier: str = "gpu.barrier") -> str:
    """Return ``CHAIN`` with the given load, store and barrier."""
    text = CHAIN.replace("LOAD", load).replace("STORE", store)
    return text.replace("PUBLISH_BARRIER", barrier)
