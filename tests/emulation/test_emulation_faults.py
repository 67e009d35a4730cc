"""The emulator finds the faults that are planted in kernels, and names them."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import MATMUL, REVERSE, Array, chain, run

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.codegen import sites
from rammer_mlir.errors import EmulationError, InputError, OptionError, UnsupportedError

RNG = np.random.default_rng(3)


def random(*shape: int) -> Array:
    """Return random numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


def fault_of(text: str, arguments: list[Array | int], blocks: int, threads: int) -> str:
    """Run a kernel, which must cause a fault, on ``arguments``; return the fault's message.

    ``text`` is the kernel in MLIR; it is launched on ``blocks`` blocks of ``threads`` threads.
    """
    with pytest.raises(EmulationError) as raised:
        run(text, arguments, blocks, threads)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_missing_barrier_between_write_and_read() -> None:
    message = fault_of(REVERSE.replace("BARRIER", ""), [random(4, 64), random(4, 64)], 4, 64)
    assert message.startswith("kernel 'reverse': unwritten memory: block 0, lane 0,")
    assert "(mirror) reads shared memory of block 0 at index 63 of 64" in message


def test_missing_barrier_before_overwriting() -> None:
    arguments: list[Array | int] = [random(32, 48), random(48, 24), random(32, 24)]
    message = fault_of(MATMUL.replace("BARRIER", ""), arguments, 12, 64)
    assert message.startswith("kernel 'matmul': data race: block 0, lane")
    assert "'llvm.store'" in message
    assert "'llvm.load'" in message
    assert "shared memory 0 of block 0" in message
    assert message.endswith("put a block barrier between them")


EXIT = """
gpu.func @early(%x: memref<64xf32>) kernel {
  %t = gpu.thread_id x
  %limit = arith.constant 60 : index
  %late = arith.cmpi uge, %t, %limit : index
  cf.cond_br %late, ^end, ^go
^go:
  gpu.barrier loc("meeting")
  cf.br ^end
^end:
  gpu.return
}
"""


def test_early_exit_before_a_barrier() -> None:
    message = fault_of(EXIT, [random(64)], 2, 64)
    assert message == (
        "kernel 'early': barrier not met by all: block 0, lanes 0-59 wait at 'gpu.barrier' "
        "(meeting); lanes 60-63 exited; let every lane reach every block barrier and shuffle"
    )


def test_two_barriers_are_not_one() -> None:
    text = """
gpu.func @fork(%x: memref<64xf32>) kernel {
  %t = gpu.thread_id x
  %c1 = arith.constant 1 : index
  %one = arith.cmpi eq, %t, %c1 : index
  scf.if %one {
    gpu.barrier loc("left")
  } else {
    gpu.barrier loc("right")
  }
  gpu.return
}"""
    message = fault_of(text, [random(64)], 1, 64)
    assert "lanes 0, 2-63 wait at 'gpu.barrier' (right)" in message
    assert "lane 1 wait at 'gpu.barrier' (left)" in message


def test_two_matrix_products_are_not_one() -> None:
    """Lanes of a subgroup that compute different products at one location do not share a result."""
    product = """%d = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 16]}
      : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32> loc("product")"""
    text = f"""
gpu.func @kernel(%x: memref<32xf32>) kernel {{
  %lane = gpu.lane_id
  %c16 = arith.constant 16 : index
  %a = arith.constant dense<1.0> : vector<4x2xf16>
  %b = arith.constant dense<1.0> : vector<2x2xf16>
  %c = arith.constant dense<0.0> : vector<2x2xf32>
  %low = arith.cmpi ult, %lane, %c16 : index
  %r = scf.if %low -> vector<2x2xf32> {{
    {product}
    scf.yield %d : vector<2x2xf32>
  }} else {{
    {product}
    scf.yield %d : vector<2x2xf32>
  }}
  %e = vector.extract %r[0, 0] : f32 from vector<2x2xf32>
  memref.store %e, %x[%lane] : memref<32xf32>
  gpu.return
}}
"""
    message = fault_of(text, [random(32)], 1, 32)
    assert "barrier not met by all" in message
    assert "lanes 0-31 wait at 'nvgpu.mma.sync' (product)" in message


def test_shuffle_that_some_lanes_skip() -> None:
    text = """
gpu.func @part(%x: memref<64xf32>) kernel {
  %t = gpu.thread_id x
  %c40 = arith.constant 40 : index
  %one = arith.constant 1 : i32
  %width = arith.constant 32 : i32
  %few = arith.cmpi ult, %t, %c40 : index
  scf.if %few {
    %o, %valid = gpu.shuffle xor %one, %one, %width : i32 loc("swap")
  }
  gpu.return
}"""
    message = fault_of(text, [random(64)], 1, 64)
    assert "lanes 32-39 wait at 'gpu.shuffle' (swap)" in message


OVERRUN = """
gpu.func @shift(%x: memref<64xf32>, %y: memref<64xf32>) kernel {
  %t = gpu.thread_id x
  %c1 = arith.constant 1 : index
  %n = arith.addi %t, %c1 : index
  %v = VALUE
  memref.store %v, %y[%t] : memref<64xf32>
  gpu.return
}
"""


def test_overrun_by_one() -> None:
    text = OVERRUN.replace("VALUE", 'memref.load %x[%n] : memref<64xf32> loc("shift_3")')
    message = fault_of(text, [random(64), random(64)], 1, 64)
    assert message == (
        "kernel 'shift': out of bounds: block 0, lane 63, 'memref.load' (shift_3) uses index 64 in "
        "dimension 0: expected 0 to 63"
    )


def test_overrun_of_the_buffer_under_a_view() -> None:
    view = """memref.load %v0[%c0] : memref<?xf32, strided<[1], offset: ?>> loc("view")
"""
    text = OVERRUN.replace(
        "%v = VALUE",
        f"""%c0 = arith.constant 0 : index
  %v0 = memref.reinterpret_cast %x to offset: [%n], sizes: [%c1], strides: [1]
      : memref<64xf32> to memref<?xf32, strided<[1], offset: ?>>
  %v = {view}""",
    )
    message = fault_of(text, [random(64), random(64)], 1, 64)
    assert "out of bounds: block 0, lane 63, 'llvm.load' (view)" in message
    assert "argument 0 at index 64 of 64" in message


def test_vector_that_reaches_beyond_the_end() -> None:
    text = """
gpu.func @wide(%x: memref<64xf32>) kernel {
  %t = gpu.thread_id x
  %v = vector.load %x[%t] : memref<64xf32>, vector<4xf32>
  gpu.return
}"""
    message = fault_of(text, [random(64)], 1, 64)
    assert "lane 61, 'vector.load'" in message


def test_missing_wait_between_blocks() -> None:
    text = chain(load="arith.addi %goal, %goal : i32")
    message = fault_of(text, [random(16, 32), np.zeros((16, 16), np.int32), 1], 16, 32)
    assert message.startswith("kernel 'chain': data race: block 2, lane 31, 'llvm.load' (consume)")
    assert "block 1, lane 0, 'llvm.store' (produce)" in message
    assert message.endswith("let one wait for the other's step counter")


def test_relaxed_publication_without_a_fence() -> None:
    store = "llvm.store %goal, %own atomic monotonic {alignment = 4 : i64} : i32, !llvm.ptr"
    message = fault_of(
        chain(store=store), [random(16, 32), np.zeros((16, 16), np.int32), 1], 16, 32
    )
    assert "data race: block 2" in message


def test_publication_at_block_scope() -> None:
    store = (
        'llvm.store %goal, %own atomic syncscope("workgroup") release {alignment = 4 : i64} '
        ": i32, !llvm.ptr"
    )
    message = fault_of(
        chain(store=store), [random(16, 32), np.zeros((16, 16), np.int32), 1], 16, 32
    )
    assert "data race: block 2" in message


def test_publication_before_all_lanes_are_done() -> None:
    message = fault_of(chain(barrier=""), [random(16, 32), np.zeros((16, 16), np.int32), 1], 16, 32)
    assert "data race" in message


def test_lanes_that_write_one_place() -> None:
    text = """
gpu.func @clash(%y: memref<8xi8>) kernel {
  %t = gpu.thread_id x
  %c8 = arith.constant 8 : index
  %one = arith.constant 1 : i8
  %i = arith.remui %t, %c8 : index
  memref.store %one, %y[%i] : memref<8xi8>
  gpu.return
}"""
    run(text, [np.zeros(8, np.int8)], 1, 8)  # neighboring bytes are not one place
    message = fault_of(text, [np.zeros(8, np.int8)], 1, 9)
    assert "data race: block 0, lane 8" in message
    assert "block 0, lane 0" in message
    assert "argument 0 at byte 0 of 8" in message


def test_memory_that_nothing_has_written() -> None:
    text = """
gpu.func @copy(%x: memref<32xf32>, %y: memref<32xf32>) kernel {
  %t = gpu.thread_id x
  %v = memref.load %x[%t] : memref<32xf32>
  memref.store %v, %y[%t] : memref<32xf32>
  gpu.return
}"""
    arguments = [random(32), random(32)]
    run(text, arguments, 1, 32)
    with pytest.raises(EmulationError, match="reads argument 0 at index 0 of 32"):
        run(text, arguments, 1, 32, unwritten=[0])


@pytest.mark.parametrize("checked", [False, True])
def test_wait_that_nothing_fulfils(checked: bool) -> None:
    x, steps = random(16, 32), np.zeros((16, 16), np.int32)
    store = "%nothing = arith.constant 0 : i32"
    with pytest.raises(EmulationError) as raised:
        run(chain(store=store), [x, steps, 1], 3, 32, checked=checked)
    message = str(raised.value)
    assert message.startswith("kernel 'chain': hang: no lane can go on; block 1, lane 0 waits in")
    assert "(await) for argument 1 at index 0 of 256, which is 0" in message
    assert "block 2, lane 0 waits" in message


def test_more_atomics_than_the_checks_keep() -> None:
    text = """
gpu.func @histogram(%y: memref<2048xi32>) kernel {
  %t = gpu.thread_id x
  %c1024 = arith.constant 1024 : index
  %one = arith.constant 1 : i32
  %u = arith.addi %t, %c1024 : index
  %a = memref.atomic_rmw addi %one, %y[%t] : (i32, memref<2048xi32>) -> i32
  %b = memref.atomic_rmw addi %one, %y[%u] : (i32, memref<2048xi32>) -> i32
  gpu.return
}"""
    y = np.zeros(2048, np.int32)
    assert "too many step counters for the checks" in fault_of(text, [y], 1, 1024)
    y[:] = 0
    run(text, [y], 1, 1024, checked=False)
    assert (y == 1).all()


def test_atomic_beyond_the_end() -> None:
    text = """
gpu.func @beyond(%y: memref<8xi32>) kernel {
  %t = gpu.thread_id x
  %one = arith.constant 1 : i32
  %a = memref.atomic_rmw addi %one, %y[%t] : (i32, memref<8xi32>) -> i32
  gpu.return
}"""
    message = fault_of(text, [np.zeros(8, np.int32)], 1, 9)
    assert "out of bounds: block 0, lane 8" in message
    assert message.endswith("uses index 8 in dimension 0: expected 0 to 7")


def test_shuffle_from_a_lane_that_does_not_exist() -> None:
    text = """
gpu.func @partial(%y: memref<40xi32>) kernel {
  %one = arith.constant 1 : i32
  %sixteen = arith.constant 16 : i32
  %width = arith.constant 32 : i32
  %o, %valid = gpu.shuffle xor %one, %sixteen, %width : i32 loc("swap")
  gpu.return
}"""
    message = fault_of(text, [np.zeros(40, np.int32)], 1, 40)
    assert "shuffle from a lane that does not exist: block 0, lane 32, 'gpu.shuffle'" in message
    assert "(swap) reads lane 16 of its subgroup" in message


def test_faults_are_the_same_every_time() -> None:
    arguments: list[Array | int] = [random(32, 48), random(48, 24), random(32, 24)]
    text = MATMUL.replace("BARRIER", "")
    assert len({fault_of(text, arguments, 12, 64) for _ in range(3)}) == 1


def test_bad_launches() -> None:
    with pytest.raises(OptionError, match="threads of a block: expected 1 to 1024, found 2000"):
        run(EXIT, [random(64)], 1, 2000)
    with pytest.raises(InputError, match="argument 0: expected 256 bytes, found 12"):
        run(EXIT, [random(3)], 1, 64)
    with pytest.raises(InputError, match="expected 1 arguments, found 0"):
        run(EXIT, [], 1, 64)


def test_a_full_table_of_sites_still_finds_its_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "SITE_BITS", 1)
    table = sites.Sites()
    with ir.Context(), ir.Location.unknown():
        operation = ir.Module.create().operation
        assert [table.add(operation, number) for number in (0, 1, 0, 1)] == [0, 1, 0, 1]
        with pytest.raises(UnsupportedError, match="at most 2 accesses"):
            table.add(operation, 2)
