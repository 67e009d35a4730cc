"""Tests that embedded kernels written by hand give right results.

They use shared memory, barriers, shuffles, atomics and private memory, in blocks of any size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from megakernel import Array, compile_launches, random_arrays

from rammer_mlir.bindings import ir
from rammer_mlir.embedding import compile_launches as embed
from rammer_mlir.errors import RammerError

SHARED = "#gpu.address_space<workgroup>"
PRIVATE = "#gpu.address_space<private>"


def launch(kernel: str, grid: str, block: str, arguments: str, constants: str = "") -> str:
    """Return MLIR text that launches the kernel named ``kernel``.

    Args:
        kernel: name of the kernel.
        grid: three values, the number of blocks in x, y and z, such as "%c3, %c1, %c1".
        block: three values, the number of threads of a block.
        arguments: the kernel's arguments with their types.
        constants: text of operations before the launch.
    """
    return f"{constants}gpu.launch_func @k::@{kernel} blocks in ({grid}) threads in ({block}) args({arguments})\n"  # noqa: E501


def module(signature: str, body: str, kernels: str) -> str:
    """Return MLIR text of a host function, and of a GPU module with the text ``kernels``.

    ``signature`` has the host function's arguments, and ``body`` its operations, which may use
    constants for sizes: %c0 to %c32, %c64, %c96 and %c128.
    """
    constants = "".join(f"%c{n} = arith.constant {n} : index\n" for n in range(33))
    more = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (64, 96, 128))
    return f"""
module attributes {{gpu.container_module}} {{
func.func @host({signature}) {{
{constants}{more}{body}
return
}}
gpu.module @k {{
{kernels}
}}
}}
"""


TRANSPOSE = f"""
gpu.func @transpose(%x: memref<16x24xf32>, %y: memref<24x16xf32>)
    workgroup(%tile: memref<8x8xf32, {SHARED}>) kernel {{
  %c8 = arith.constant 8 : index
  %bx = gpu.block_id x
  %by = gpu.block_id y
  %tx = gpu.thread_id x
  %ty = gpu.thread_id y
  %i = affine.apply affine_map<(b)[t] -> (b * 8 + t)>(%by)[%ty]
  %j0 = arith.muli %bx, %c8 : index
  %j = arith.addi %j0, %tx : index
  %v = memref.load %x[%i, %j] : memref<16x24xf32>
  memref.store %v, %tile[%ty, %tx] : memref<8x8xf32, {SHARED}>
  gpu.barrier
  %w = memref.load %tile[%tx, %ty] : memref<8x8xf32, {SHARED}>
  %i1 = affine.apply affine_map<(b)[t] -> (b * 8 + t)>(%by)[%tx]
  %j1 = affine.apply affine_map<(b)[t] -> (b * 8 + t)>(%bx)[%ty]
  memref.store %w, %y[%j1, %i1] : memref<24x16xf32>
  gpu.return
}}
"""
"""Transposes through shared memory, in 3 x 2 blocks of 8 x 8 threads."""

ROW_SUMS = f"""
gpu.func @row_sums(%y: memref<24x16xf32>, %s: memref<24xf32>, %rounds: memref<index>)
    workgroup(%part: memref<4xf32, {SHARED}>) private(%own: memref<2xf32, {PRIVATE}>) kernel {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %b = gpu.block_id x
  %t = gpu.thread_id x
  memref.store %zero, %own[%c1] : memref<2xf32, {PRIVATE}>
  // How often the block meets is read from memory: all threads agree.
  %n = memref.load %rounds[] : memref<index>
  scf.for %r = %c0 to %n step %c1 {{
    %j = affine.apply affine_map<(r)[t] -> (r * 4 + t)>(%r)[%t]
    %v = memref.load %y[%b, %j] : memref<24x16xf32>
    memref.store %v, %part[%t] : memref<4xf32, {SHARED}>
    gpu.barrier
    %leads = arith.cmpi eq, %t, %c0 : index
    scf.if %leads {{
      %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %zero) -> f32 {{
        %p = memref.load %part[%i] : memref<4xf32, {SHARED}>
        %q = arith.addf %a, %p : f32
        scf.yield %q : f32
      }}
      %old = memref.load %own[%c1] : memref<2xf32, {PRIVATE}>
      %new = arith.addf %old, %sum : f32
      memref.store %new, %own[%c1] : memref<2xf32, {PRIVATE}>
    }}
    gpu.barrier
  }}
  %leads = arith.cmpi eq, %t, %c0 : index
  scf.if %leads {{
    %total = memref.load %own[%c1] : memref<2xf32, {PRIVATE}>
    memref.store %total, %s[%b] : memref<24xf32>
  }}
  gpu.return
}}
"""
"""Each block of 4 threads sums a row; the loop around the barriers has a bound from memory."""

SCALE = """
gpu.func @scale(%y: memref<24x16xf32>, %s: memref<24xf32>, %f: f32, %first: index) kernel {
  %i = gpu.global_id x
  %j = gpu.global_id y
  %k = gpu.global_id z
  %row = arith.addi %i, %first : index
  %j2 = affine.apply affine_map<(j)[k] -> (j * 4 + k)>(%j)[%k]
  %v = memref.load %y[%row, %j2] : memref<24x16xf32>
  %t = memref.load %s[%row] : memref<24xf32>
  %p = arith.mulf %v, %f : f32
  %q = arith.addf %p, %t : f32
  memref.store %q, %y[%row, %j2] : memref<24x16xf32>
  gpu.return
}
"""
"""Computes y = y * f + s in place, with blocks and threads in x, y and z."""

ALL_SUM = f"""
gpu.func @all_sum(%y: memref<24x16xf32>, %total: memref<1xf32>)
    workgroup(%part: memref<3xf32, {SHARED}>) kernel {{
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1 : i32
  %none = arith.constant 0 : i32
  %start = arith.constant 16 : i32
  %width = arith.constant 32 : i32
  %i = gpu.global_id x
  %row = arith.divui %i, %c16 : index
  %column = arith.remui %i, %c16 : index
  %v0 = memref.load %y[%row, %column] : memref<24x16xf32>
  %r:2 = scf.while (%v = %v0, %d = %start) : (f32, i32) -> (f32, i32) {{
    %more = arith.cmpi ugt, %d, %none : i32
    scf.condition(%more) %v, %d : f32, i32
  }} do {{
  ^bb0(%v: f32, %d: i32):
    %o, %valid = gpu.shuffle xor %v, %d, %width : f32
    %sum = arith.addf %v, %o : f32
    %next = arith.shrui %d, %one : i32
    scf.yield %sum, %next : f32, i32
  }}
  %lane = gpu.lane_id
  %leads = arith.cmpi eq, %lane, %c0 : index
  scf.if %leads {{
    %old = memref.atomic_rmw addf %r#0, %total[%c0] : (f32, memref<1xf32>) -> f32
  }}
  gpu.return
}}
"""
"""Blocks of 3 warps add what their lanes hold to one number."""

WIDE = """
gpu.func @wide(%y: memref<24x16xf32>) kernel {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %i = gpu.global_id x
  %row = arith.divui %i, %c16 : index
  %column = arith.remui %i, %c16 : index
  %total = scf.for %r = %c0 to %c4 step %c1 iter_args(%a = %zero) -> f32 {
    %own = memref.alloca() : memref<4xf32>
    scf.for %k = %c0 to %c4 step %c1 {
      %v = memref.load %y[%row, %column] : memref<24x16xf32>
      memref.store %v, %own[%k] : memref<4xf32>
    }
    // Which element it is depends on the thread, so that it cannot be kept in registers.
    %at = arith.remui %i, %c4 : index
    %w = memref.load %own[%at] : memref<4xf32>
    %b = arith.addf %a, %w : f32
    scf.yield %b : f32
  }
  memref.store %total, %y[%row, %column] : memref<24x16xf32>
  gpu.return
}
"""
"""Blocks of 128 threads multiply each element by four through private memory."""

SIGNATURE = (
    "%x: memref<16x24xf32>, %y: memref<24x16xf32>, %s: memref<24xf32>, %rounds: memref<index>, "
    "%total: memref<1xf32>"
)
BODY = (
    launch("transpose", "%c3, %c2, %c1", "%c8, %c8, %c1",
           "%x : memref<16x24xf32>, %y : memref<24x16xf32>")
    + launch("row_sums", "%c24, %c1, %c1", "%c4, %c1, %c1",
             "%y : memref<24x16xf32>, %s : memref<24xf32>, %rounds : memref<index>")
    + "%two = arith.constant 2.0 : f32\n"
    + launch("scale", "%c3, %c2, %c1", "%c4, %c2, %c4",
             "%y : memref<24x16xf32>, %s : memref<24xf32>, %two : f32, %c0 : index")
    + launch("scale", "%c3, %c2, %c1", "%c4, %c2, %c4",
             "%y : memref<24x16xf32>, %s : memref<24xf32>, %two : f32, %c12 : index")
    + launch("all_sum", "%c4, %c1, %c1", "%c96, %c1, %c1",
             "%y : memref<24x16xf32>, %total : memref<1xf32>")
)  # fmt: skip
PROGRAM = module(SIGNATURE, BODY, TRANSPOSE + ROW_SUMS + SCALE + ALL_SUM)
"""Blocks of 64, 4, 32 and 96 threads: most leave threads of the persistent block idle."""


def expected(x: Array, total: Array) -> tuple[Array, Array, Array]:
    """Return y, s and total after a run of ``PROGRAM``, computed in float64."""
    y = x.astype(np.float64).T
    s = y.sum(axis=1)
    y = 2 * y + s[:, None]
    return y, s, total + y.sum()


WIDER = module(
    SIGNATURE,
    BODY + launch("wide", "%c3, %c1, %c1", "%c128, %c1, %c1", "%y : memref<24x16xf32>"),
    TRANSPOSE + ROW_SUMS + SCALE + ALL_SUM + WIDE,
)
"""The program with ``WIDE``, in whose larger block warps are idle beside shuffles."""


def test_spare_warps() -> None:
    mega = compile_launches(WIDER, num_veus=3)
    assert mega.program.block_threads == 128
    x, y, s, total = random_arrays(8, (16, 24), (24, 16), (24,), (1,))
    found = mega.run(x, y, s, np.array(4, np.int64), total)
    wanted = expected(x, total)
    for number, value in zip((1, 2, 4), (4 * wanted[0], *wanted[1:]), strict=True):
        assert np.abs(found[number] - value).max() < 1e-5 * np.abs(value).max()


def test_code_for_a_device() -> None:
    """Kernels with private memory are compiled for an NVIDIA and an AMD device."""
    with ir.Context(), ir.Location.unknown():
        executable = embed(ir.Module.parse(WIDER), target="nvvm:sm_90", num_veus=4)
    assert executable.image.block_threads == 128
    assert executable.code
    without_shuffles = WIDER.replace("gpu.launch_func @k::@all_sum", "// ")
    with ir.Context(), ir.Location.unknown():
        executable = embed(ir.Module.parse(without_shuffles), target="rocdl:gfx90a", num_veus=4)
    assert executable.code[:4] == b"\x7fELF"


@pytest.mark.parametrize("policy", ["wavefront", "list"])
@pytest.mark.parametrize("num_veus", [1, 2, 5])
def test_blocks_of_any_size(num_veus: int, policy: str) -> None:
    mega = compile_launches(PROGRAM, num_veus=num_veus, policy=policy)
    assert mega.program.block_threads == 96
    x, y, s, total = random_arrays(4, (16, 24), (24, 16), (24,), (1,))
    found = mega.run(x, y, s, np.array(4, np.int64), total)
    for number, value in zip((1, 2, 4), expected(x, total), strict=True):
        scale = np.abs(value).max()
        assert np.abs(found[number] - value).max() < 1e-5 * scale


def test_runs_follow_each_other() -> None:
    """A run begins with the values that the run before left in the buffers."""
    mega = compile_launches(PROGRAM)
    x, y, s, total = random_arrays(5, (16, 24), (24, 16), (24,), (1,))
    found = mega.run(x, y, s, np.array(4, np.int64), total, runs=3)
    value = total
    for _ in range(3):
        value = expected(x, value)[2]
    assert abs(found[4] - value) < 1e-4 * abs(value)


def test_blocks_of_one_size_have_no_spare_threads() -> None:
    body = launch("transpose", "%c3, %c2, %c1", "%c8, %c8, %c1",
                  "%x : memref<16x24xf32>, %y : memref<24x16xf32>")  # fmt: skip
    text = module("%x: memref<16x24xf32>, %y: memref<24x16xf32>", body, TRANSPOSE)
    mega = compile_launches(text, target="rocdl:gfx90a")
    assert mega.program.block_threads == 64
    assert "scf.if" not in mega.schedule
    x, y = random_arrays(6, (16, 24), (24, 16))
    assert np.array_equal(mega.run(x, y)[1], x.T)


def test_parts_of_one_buffer() -> None:
    """Launches on views of a buffer depend on each other only where these overlap."""
    views = """
%left = memref.subview %y[0, 0] [24, 8] [1, 1] : memref<24x16xf32> to memref<24x8xf32, strided<[16, 1]>>
%right = memref.subview %y[0, 8] [24, 8] [1, 1] : memref<24x16xf32> to memref<24x8xf32, strided<[16, 1], offset: 8>>
%rows = memref.subview %y[4, 0] [8, 16] [1, 1] : memref<24x16xf32> to memref<8x16xf32, strided<[16, 1], offset: 64>>
"""  # noqa: E501
    kinds = {
        "left": (24, 8, "strided<[16, 1]>"),
        "right": (24, 8, "strided<[16, 1], offset: 8>"),
        "rows": (8, 16, "strided<[16, 1], offset: 64>"),
    }
    factors = {"left": 0.5, "right": -3.0, "rows": 1.5}
    kernels, body = "", views
    for name, (rows, columns, layout) in kinds.items():
        kind = f"memref<{rows}x{columns}xf32, {layout}>"
        kernels += f"""
gpu.func @{name}(%y: {kind}, %f: f32) kernel {{
  %i = gpu.block_id x
  %j = gpu.thread_id x
  %v = memref.load %y[%i, %j] : {kind}
  %w = arith.mulf %v, %f : f32
  %z = arith.addf %w, %f : f32
  memref.store %z, %y[%i, %j] : {kind}
  gpu.return
}}
"""
        body += f"%f_{name} = arith.constant {factors[name]} : f32\n"
        arguments = f"%{name} : {kind}, %f_{name} : f32"
        body += launch(name, f"%c{rows}, %c1, %c1", f"%c{columns}, %c1, %c1", arguments)
    mega = compile_launches(module("%y: memref<24x16xf32>", body, kernels), num_veus=2)
    (y,) = random_arrays(7, (24, 16))
    wanted = y.astype(np.float64)
    parts = {"left": np.s_[:, :8], "right": np.s_[:, 8:], "rows": np.s_[4:12, :]}
    for name, part in parts.items():
        wanted[part] = wanted[part] * factors[name] + factors[name]
    assert np.abs(mega.run(y)[0] - wanted).max() < 1e-5


def test_a_barrier_that_is_missing_is_found() -> None:
    """The emulator finds that a barrier is missing in an embedded kernel."""
    broken = TRANSPOSE.replace("gpu.barrier", "")
    body = launch("transpose", "%c3, %c2, %c1", "%c8, %c8, %c1",
                  "%x : memref<16x24xf32>, %y : memref<24x16xf32>")  # fmt: skip
    mega = compile_launches(module("%x: memref<16x24xf32>, %y: memref<24x16xf32>", body, broken))
    with pytest.raises(RammerError, match=r"data race|not written|never written|unwritten"):
        mega.run(*random_arrays(6, (16, 24), (24, 16)))


@pytest.mark.parametrize(("operations", "total"), [
    # Undefined for a zero divisor: LLVM may assume that no thread has one.
    ("%q = arith.divui %hundred, %n : i32", 10 * 32),
    # Halves the number until it is 1, which never ends from 0.
    ("""%q, %last = scf.while (%q0 = %zero, %m = %n) : (i32, i32) -> (i32, i32) {
          %more = arith.cmpi ne, %m, %one : i32
          scf.condition(%more) %q0, %m : i32, i32
        } do {
        ^bb0(%q0: i32, %m: i32):
          %half = arith.shrui %m, %one : i32
          %q1 = arith.addi %q0, %one : i32
          scf.yield %q1, %half : i32, i32
        }""", 3 * 32),
])  # fmt: skip
def test_spare_threads_do_not_compute_on_zeros(operations: str, total: int) -> None:
    """Beside blocks of 64 threads, threads without elements divide by nothing and loop nowhere."""
    kernel = f"""
gpu.func @count(%x: memref<32xi32>, %sum: memref<1xi32>) kernel {{
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %hundred = arith.constant 100 : i32
  %t = gpu.thread_id x
  %n = memref.load %x[%t] : memref<32xi32>
  {operations}
  %old = memref.atomic_rmw addi %q, %sum[%c0] : (i32, memref<1xi32>) -> i32
  gpu.barrier
  gpu.return
}}
gpu.func @other(%z: memref<64xi32>) kernel {{
  %t = gpu.thread_id x
  %five = arith.constant 5 : i32
  memref.store %five, %z[%t] : memref<64xi32>
  gpu.return
}}"""
    launches = launch("count", "%c1, %c1, %c1", "%c32, %c1, %c1",
                      "%x : memref<32xi32>, %sum : memref<1xi32>")  # fmt: skip
    launches += launch("other", "%c1, %c1, %c1", "%c64, %c1, %c1", "%z : memref<64xi32>")
    signature = "%x: memref<32xi32>, %sum: memref<1xi32>, %z: memref<64xi32>"
    mega = compile_launches(module(signature, launches, kernel))
    x = np.full(32, 10, np.int32)
    found = mega.run(x, np.zeros(1, np.int32), np.zeros(64, np.int32))
    assert found[1][0] == total and (found[2] == 5).all()


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx90a"])
@pytest.mark.parametrize(("operation", "kind", "combine", "size", "stride"), [
    ("add", "f32", np.sum, 0, 1),
    ("mul", "f64", np.prod, 0, 1),
    ("maximumf", "f16", np.max, 0, 1),
    ("minsi", "i8", np.min, 0, 1),
    ("add", "i64", np.sum, 8, 1),
    ("maxsi", "i32", np.max, 4, 8),
])  # fmt: skip
def test_subgroup_reductions(
    target: str, operation: str, kind: str, combine: Any, size: int, stride: int
) -> None:
    cluster = f"cluster(size = {size}, stride = {stride})" if size else ""
    memory = f"memref<128x{kind}>"
    kernel = f"""
gpu.func @reduce(%x: {memory}, %id: memref<128xindex>) kernel {{
  %t = gpu.thread_id x
  %v = memref.load %x[%t] : {memory}
  %r = gpu.subgroup_reduce {operation} %v {cluster} : ({kind}) -> {kind}
  memref.store %r, %x[%t] : {memory}
  %s = gpu.subgroup_id : index
  %n = gpu.num_subgroups : index
  %w = gpu.subgroup_size : index
  %a = arith.muli %s, %w : index
  %b = arith.addi %a, %n : index
  memref.store %b, %id[%t] : memref<128xindex>
  gpu.return
}}"""
    signature = f"%x: {memory}, %id: memref<128xindex>"
    launches = launch("reduce", "%c1, %c1, %c1", "%c128, %c1, %c1",
                      f"%x : {memory}, %id : memref<128xindex>")  # fmt: skip
    mega = compile_launches(module(signature, launches, kernel), target=target)
    dtype = {"f16": "float16", "f32": "float32", "f64": "float64"}.get(kind, f"int{kind[1:]}")
    x = np.random.default_rng(0).uniform(1, 2, 128) if kind[0] == "f" else np.arange(128) % 7
    x = x.astype(dtype)
    lanes = mega.program.target.warp_size
    found, ids = mega.run(x, np.zeros(128, np.int64))
    size = size or lanes
    # Lanes of a cluster are `stride` apart: a subgroup has blocks of size x stride lanes.
    groups = x.reshape(-1, size, stride)
    expected = np.broadcast_to(combine(groups, axis=1, keepdims=True), groups.shape).reshape(-1)
    np.testing.assert_allclose(found, expected.astype(dtype), rtol=1e-5)
    np.testing.assert_array_equal(ids, np.arange(128) // lanes * lanes + 128 // lanes)


def test_decisions_of_a_block_in_shared_memory() -> None:
    """A leader counts in shared memory; all threads, also spare ones, read it between barriers."""
    kernel = f"""
gpu.func @count(%x: memref<32xi32>) workgroup(%left: memref<1xi32, {SHARED}>) kernel {{
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %t = gpu.thread_id x
  %is_leader = arith.cmpi eq, %t, %c0 : index
  scf.if %is_leader {{
    memref.store %three, %left[%c0] : memref<1xi32, {SHARED}>
  }}
  gpu.barrier
  scf.while : () -> () {{
    %v = memref.load %left[%c0] : memref<1xi32, {SHARED}>
    %go = arith.cmpi sgt, %v, %zero : i32
    scf.condition(%go)
  }} do {{
    %old = memref.load %x[%t] : memref<32xi32>
    %new = arith.addi %old, %one : i32
    memref.store %new, %x[%t] : memref<32xi32>
    gpu.barrier
    scf.if %is_leader {{
      %v = memref.load %left[%c0] : memref<1xi32, {SHARED}>
      %w = arith.subi %v, %one : i32
      memref.store %w, %left[%c0] : memref<1xi32, {SHARED}>
    }}
    gpu.barrier
    scf.yield
  }}
  gpu.return
}}"""
    signature = "%x: memref<32xi32>, %y: memref<24x16xf32>"
    launches = launch("count", "%c1, %c1, %c1", "%c32, %c1, %c1", "%x : memref<32xi32>")
    launches += launch("wide", "%c3, %c1, %c1", "%c128, %c1, %c1", "%y : memref<24x16xf32>")
    mega = compile_launches(module(signature, launches, kernel + WIDE), checked=True)
    x = np.arange(32, dtype=np.int32)
    found = mega.run(x, np.zeros((24, 16), np.float32))
    np.testing.assert_array_equal(found[0], x + 3)
