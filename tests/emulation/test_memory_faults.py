"""The emulator finds faulty atomic accesses, and accesses that the hardware refuses."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import SHARED, Array, run

from rammer_mlir.bindings import ir
from rammer_mlir.emulation.codegen.kernel import compile_kernel
from rammer_mlir.errors import EmulationError, UnsupportedError

_ADD = "memref.atomic_rmw addi %one, {0} : (i32, memref<{1}>) -> i32"

_LOAD = "memref.load %y[%c0] : memref<4xi32>"
_STORE = "memref.store %one, %y[%c0] : memref<4xi32>"

_POINTER = """%a = memref.extract_aligned_pointer_as_index %y : memref<4xi32> -> index
  %i = arith.index_cast %a : index to i64
  %p = llvm.inttoptr %i : i64 to !llvm.ptr"""


def kernel(body: str, inputs: str = "%y: memref<4xi32>", shared: str = "4xi32") -> str:
    """Return a kernel with shared memory ``%s``, the constants 0, 1 and 2, and thread ``%t``."""
    return f"""
gpu.func @k({inputs}) workgroup(%s: memref<{shared}, {SHARED}>) kernel {{
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %first_lane = arith.cmpi eq, %t, %c0 : index
  %first_block = arith.cmpi eq, %b, %c0 : index
  {body}
  gpu.return
}}"""


def fault_of(text: str, *arguments: Array, blocks: int = 1, threads: int = 1) -> str:
    """Run a kernel, which must cause a fault, and return the fault's message."""
    with pytest.raises(EmulationError) as raised:
        run(text, arguments, blocks, threads)
    return str(raised.value)


def words(*shape: int) -> Array:
    """Return zeros of type i32."""
    return np.zeros(shape or 4, np.int32)


def histogram(barrier: str) -> str:
    """Return a kernel whose first lane clears a word of shared memory; then all lanes count."""
    add = _ADD.format("%s[%c0]", f"4xi32, {SHARED}")
    return kernel(f"""
  scf.if %first_lane {{ memref.store %zero, %s[%c0] : memref<4xi32, {SHARED}> }}
  {barrier}
  %old = {add}
  gpu.barrier
  scf.if %first_lane {{
    %sum = memref.load %s[%c0] : memref<4xi32, {SHARED}>
    memref.store %sum, %y[%c0] : memref<4xi32>
  }}""")


def test_atomics_between_barriers() -> None:
    y = words()
    run(histogram("gpu.barrier"), [y], 1, 64)
    assert y[0] == 64


def test_missing_barrier_between_a_store_and_atomics() -> None:
    message = fault_of(histogram(""), words(), threads=64)
    assert message.startswith("kernel 'k': data race: block 0, lane 1, 'llvm.atomicrmw'")
    assert "block 0, lane 0, 'llvm.store'" in message


@pytest.mark.parametrize("blocks", [2, 3])
@pytest.mark.parametrize(
    "access",
    [f"%v = {_LOAD}\nmemref.store %v, %y[%c1] : memref<4xi32>", _STORE],
    ids=["load", "store"],
)
def test_plain_access_and_atomics_of_other_blocks(access: str, blocks: int) -> None:
    """The race is found even if the accessing block has also accessed the word atomically."""
    text = kernel(f"""
  {_POINTER}
  %o = llvm.atomicrmw add %p, %one syncscope("device") monotonic : !llvm.ptr, i32
  %last = arith.cmpi eq, %b, %c1 : index
  scf.if %last {{ {access} }}""")
    message = fault_of(text, words(), blocks=blocks)
    assert message.startswith("kernel 'k': data race: block ")
    assert "'llvm.atomicrmw'" in message


def test_atomic_after_a_plain_load_of_another_block() -> None:
    text = kernel(f"""
  scf.if %first_block {{
    %v = {_LOAD}
    memref.store %v, %y[%c1] : memref<4xi32>
  }} else {{ %o = {_ADD.format("%y[%c0]", "4xi32")} }}""")
    message = fault_of(text, words(), blocks=2)
    assert "block 1, lane 0, 'llvm.atomicrmw'" in message
    assert "block 0, lane 0, 'llvm.load'" in message


def test_atomic_loads_and_plain_loads_do_not_race() -> None:
    use = f"%x = {_LOAD}"
    load = 'llvm.load %p atomic syncscope("device") monotonic {alignment = 4 : i64}'
    text = kernel(f"""
  {_POINTER}
  %v = {_LOAD}
  %w = {load} : !llvm.ptr -> i32
  %sum = arith.addi %w, %w : i32
  {use}""")
    run(text, [words()], 2, 32)
    message = fault_of(text.replace(f"%v = {_LOAD}", "").replace(use, _STORE), words(), blocks=2)
    assert message.startswith("kernel 'k': data race")


def test_exchange_writes_memory() -> None:
    exchange = f"memref.atomic_rmw assign %one, %s[%t] : (i32, memref<4xi32, {SHARED}>) -> i32"
    body = f"""
  %o = {exchange}
  gpu.barrier
  %v = memref.load %s[%t] : memref<4xi32, {SHARED}>
  memref.store %v, %y[%t] : memref<4xi32>"""
    y = words()
    run(kernel(body), [y], 1, 4)
    assert (y == 1).all()
    message = fault_of(kernel(body.replace("%v, %y", "%o, %y")), words(), threads=4)
    assert message.startswith("kernel 'k': unwritten memory: block 0, lane 0, 'llvm.atomicrmw'")


def test_atomic_update_of_memory_that_nothing_has_written() -> None:
    text = kernel(f"%o = {_ADD.format('%s[%c1]', f'4xi32, {SHARED}')}")
    message = fault_of(text, words())
    assert message.startswith("kernel 'k': unwritten memory: block 0, lane 0, 'llvm.atomicrmw'")
    assert "reads shared memory of block 0 at index 1 of 4" in message


@pytest.mark.parametrize(
    "access",
    ["memref.store %one, %y[%c1] : memref<4xi32>", f"%o = {_ADD.format('%y[%c1]', '4xi32')}"],
    ids=["store", "atomic"],
)
def test_writes_to_a_read_only_buffer(access: str) -> None:
    y = words()
    y.flags.writeable = False
    message = fault_of(kernel(access), y)
    assert message.startswith("kernel 'k': read-only memory: block 0, lane 0,")
    assert "writes argument 0 at index 1 of 4, which the kernel may only read" in message


@pytest.mark.parametrize(
    "access",
    [
        "%v = memref.load %f[%c0] : memref<2xi32>\nmemref.store %v, %f[%c1] : memref<2xi32>",
        "memref.store %one, %f[%c0] : memref<2xi32>",
        f"%v = {_ADD.format('%f[%c0]', '2xi32')}",
    ],
    ids=["load", "store", "atomic"],
)
def test_misaligned_scalars(access: str) -> None:
    view = "memref.view %x[%at][] : memref<16xi8> to memref<2xi32>"
    text = kernel(f"%f = {view}\n{access}", "%x: memref<16xi8>, %at: index")
    run(text, [np.zeros(16, np.int8), 4], 1, 1)
    with pytest.raises(EmulationError) as raised:
        run(text, [np.zeros(16, np.int8), 2], 1, 1)
    message = str(raised.value)
    assert message.startswith("kernel 'k': misaligned: block 0, lane 0, 'llvm.")
    assert message.endswith("argument 0 at byte 2 of 16: expected a multiple of 4 bytes")


def test_index_of_an_atomic_beyond_its_dimension() -> None:
    text = kernel(f"%o = {_ADD.format('%y[%c0, %c2]', '2x2xi32')}", "%y: memref<2x2xi32>")
    message = fault_of(text, words(2, 2))
    assert "'memref.atomic_rmw'" in message
    assert message.endswith("uses index 2 in dimension 1: expected 0 to 1")


def copy(to: str, source: str, taken: str = "") -> str:
    """Return a kernel that copies two words asynchronously; ``taken`` is their count if not 2."""
    return kernel(f"""
  %token = nvgpu.device_async_copy %x[{source}], %s[{to}], 2{taken}
      : memref<2x4xf32> to memref<2x4xf32, {SHARED}>
  %group = nvgpu.device_async_create_group %token
  nvgpu.device_async_wait %group {{numGroups = 0 : i32}}
  """, "%x: memref<2x4xf32>", "2x4xf32")  # fmt: skip


def test_indices_of_asynchronous_copies_beyond_their_dimensions() -> None:
    x = np.zeros((2, 4), np.float32)
    run(copy("%c1, %c2", "%c0, %c2"), [x], 1, 1)
    run(copy("%c0, %c0", "%c2, %c0", ", %c0"), [x], 1, 1)  # reads nothing
    for to, source, taken in (
        ("%c0, %c0", "%c2, %c0", ", %c1"),
        ("%c0, %c0", "%c2, %c0", ""),
        ("%c2, %c0", "%c0, %c0", ""),
    ):
        message = fault_of(copy(to, source, taken), x)
        assert "'nvgpu.device_async_copy'" in message
        assert message.endswith("uses index 2 in dimension 0: expected 0 to 1")


def test_row_of_a_matrix_load_beyond_its_dimension() -> None:
    """Each lane passes the first of eight elements of a row, which has to be in one dimension."""
    text = kernel(f"""
  %half = arith.constant 1.0 : f16
  %c8 = arith.constant 8 : index
  %row = arith.remui %t, %c8 : index
  scf.for %i = %c0 to %c8 step %c1 {{
    memref.store %half, %s[%row, %i] : memref<8x8xf16, {SHARED}>
  }}
  gpu.barrier
  %f = nvgpu.ldmatrix %s[%row, %at] {{numTiles = 1 : i32, transpose = false}}
      : memref<8x8xf16, {SHARED}> -> vector<1x2xf16>""", "%at: index", "8x8xf16")  # fmt: skip
    run(text, [0], 1, 8)
    with pytest.raises(EmulationError, match=r"'nvgpu.ldmatrix'.*index 8 in dimension 1"):
        run(text, [8], 1, 8)


def test_more_shared_memory_than_the_gpu_has() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"gpu.module @m {{{kernel('')}}}")
        compile_kernel(module, "k", checked=False, shared_limit=16)
        with pytest.raises(UnsupportedError) as raised:
            compile_kernel(module, "k", checked=False, shared_limit=12)
    assert str(raised.value) == (
        "kernel 'k': expected at most 12 bytes of shared memory, which the GPU has for a kernel, "
        "found 16; use smaller workgroup buffers"
    )


def test_memory_of_vectors() -> None:
    """An index of a memref whose elements are vectors selects one vector."""
    body = f"""
  %v = arith.constant dense<7> : vector<4xi32>
  memref.store %v, %w[%t] : memref<4xvector<4xi32>, {SHARED}>
  gpu.barrier
  %loaded = memref.load %w[%t] : memref<4xvector<4xi32>, {SHARED}>
  %c4 = arith.constant 4 : index
  %begin = arith.muli %t, %c4 : index
  vector.store %loaded, %y[%begin] : memref<16xi32>, vector<4xi32>"""
    text = kernel(body, "%y: memref<16xi32>", "4xvector<4xi32>").replace("%s:", "%w:")
    y = words(16)
    run(text, [y], 1, 4)
    np.testing.assert_array_equal(y, 7)
