"""Tests that GPU kernels have 32-bit indices where these suffice, and right pointers to elements.

Addresses and step counters keep 64 bits.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from code_objects import emit_isa
from kernel_harness import kernel_of

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.llvm.index_width import LIMIT, index_width
from rammer_mlir.lowering.gpu.llvm.memory_accesses import lower_memory_accesses
from rammer_mlir.lowering.gpu.llvm.to_llvm import gpu_llvm_ir
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.steps import llvm_steps
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.lowering.nvvm.gpu_to_nvvm import lower_to_nvvm
from rammer_mlir.lowering.nvvm.ptx import emit_ptx
from rammer_mlir.lowering.rocdl.gpu_to_rocdl import lower_to_rocdl

_SHARED = "#gpu.address_space<workgroup>"


def program(arena: int, scope: str = "device") -> Any:
    """Return a module whose kernel moves elements within its arena and stores a step counter.

    The kernel reads the offset in the arena from a table.

    Args:
        arena: size of the arena in bytes.
        scope: the target's name of the memory scope that covers the device.
    """
    return ir.Module.parse(f"""
gpu.module @m {{
  gpu.func @k(%arena: memref<{arena}xi8>, %table: memref<64xi64>, %steps: memref<16xi64>)
      workgroup(%shared: memref<256xf32, {_SHARED}>) kernel {{
    %thread = gpu.thread_id x
    %one = arith.constant 1 : index
    %step = arith.constant 1 : i64
    %offset64 = memref.load %table[%one] : memref<64xi64>
    %offset = arith.index_cast %offset64 : i64 to index
    %x = memref.view %arena[%offset][] : memref<{arena}xi8> to memref<16x64xf32>
    %next = arith.addi %thread, %one : index
    %old = memref.load %x[%one, %next] : memref<16x64xf32>
    memref.store %old, %shared[%next] : memref<256xf32, {_SHARED}>
    gpu.barrier
    %again = memref.load %shared[%thread] : memref<256xf32, {_SHARED}>
    memref.store %again, %x[%one, %thread] : memref<16x64xf32>
    %done = memref.load %table[%thread] : memref<64xi64>
    %begin = memref.extract_aligned_pointer_as_index %steps : memref<16xi64> -> index
    %begin64 = arith.index_cast %begin : index to i64
    %counter = llvm.inttoptr %begin64 : i64 to !llvm.ptr<1>
    %sum = arith.addi %done, %step : i64
    llvm.store %sum, %counter atomic syncscope("{scope}") release {{alignment = 8 : i64}} : i64, !llvm.ptr<1>
    gpu.return
  }}
}}""")  # noqa: E501


@pytest.mark.parametrize(
    ("arena", "bits"), [(64, 32), (LIMIT - 1, 32), (LIMIT, 64), (1 << 31, 64), (5 << 30, 64)]
)
def test_the_longest_buffer_decides(arena: int, bits: int) -> None:
    with ir.Context(), ir.Location.unknown():
        assert index_width(program(arena)) == bits


def test_addresses_are_no_indices_of_32_bits() -> None:
    """A kernel that computes with an address as an index has 64-bit indices."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("""
gpu.module @m {
  gpu.func @k(%a: memref<16xi64>) kernel {
    %begin = memref.extract_aligned_pointer_as_index %a : memref<16xi64> -> index
    %behind = arith.addi %begin, %begin : index
    %word = arith.index_cast %behind : index to i64
    %at = arith.constant 0 : index
    memref.store %word, %a[%at] : memref<16xi64>
    gpu.return
  }
}""")
        assert index_width(module) == 64


def lowered(arena: int, kind: str) -> str:
    """Return the LLVM IR of the kernel of ``program`` after the lowering for ``kind``.

    ``kind`` is ``nvvm`` or ``rocdl``, and ``arena`` is the size of the arena in bytes.
    """
    with ir.Context(), ir.Location.unknown():
        module = program(arena, "device" if kind == "nvvm" else "agent")
        if kind == "nvvm":
            lower_to_nvvm(module)
        else:
            lower_to_rocdl(module, "gfx90a")
        return gpu_llvm_ir(module)


@pytest.mark.parametrize("kind", ["nvvm", "rocdl"])
def test_short_buffers(kind: str) -> None:
    """Offsets of a short arena are cut to 32 bits; step counters and addresses keep 64 bits."""
    text = lowered(1 << 30, kind)
    assert re.search(r"trunc i64 %\d+ to i32", text)
    assert re.search(r"getelementptr float, ptr %\d+, i32 %\d+", text)
    assert not re.search(r"getelementptr .* i64 %\d+", text)
    assert re.search(r"ptrtoint ptr %\d+ to i64", text)
    assert re.search(r"add i64 %\d+, 1\n", text)
    assert re.search(r"store atomic i64 %\d+", text)


@pytest.mark.parametrize("kind", ["nvvm", "rocdl"])
def test_an_arena_of_two_gib(kind: str) -> None:
    text = lowered(1 << 31, kind)
    assert not re.search(r"trunc i64|getelementptr .* i32 %\d+", text)
    assert re.search(r"getelementptr float, ptr %\d+, i64 %\d+", text)


def test_constants_are_in_the_instructions() -> None:
    """Constant distances become offsets of the load and store instructions.

    In device memory, one row and one element are (64 + 1) * 4 bytes; in shared memory, one element
    is 4 bytes.
    """
    ptx = emit_ptx(lowered(1 << 30, "nvvm"), "sm_90")
    assert re.search(r"ld\.global\.b32 \t%r\d+, \[%rd\d+\+260\]", ptx)
    assert re.search(r"st\.shared\.b32 \t\[%r\d+\+4\]", ptx)
    assert "offset:260" in emit_isa(lowered(1 << 30, "rocdl"), "gfx90a")


def test_far_constants_stay_in_the_index() -> None:
    """A constant distance that is too large for an instruction stays in the 32-bit index.

    Without the constant, the remaining index might leave the range of 32 bits.
    """
    text = """
gpu.module @m {
  gpu.func @k(%a: memref<4x4194304xf32>) kernel {
    %three = arith.constant 3 : index
    %thread = gpu.thread_id x
    %x = memref.load %a[%three, %thread] : memref<4x4194304xf32>
    memref.store %x, %a[%thread, %three] : memref<4x4194304xf32>
    gpu.return
  }
}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        lower_to_nvvm(module)
        found = gpu_llvm_ir(module)
    assert re.search(rf"add nsw i32 %\d+, {3 << 22}", found)
    assert re.search(r"getelementptr float, ptr %\d+, i32 3", found)


def test_pointers_to_elements() -> None:
    """Pointers lead to the right elements for random sums, differences and products of indices.

    The code is compiled for and executed on the CPU.
    """
    random = np.random.default_rng(0)
    numbers = random.integers(-3, 4, (40, 5))
    lines = [f"  %k{n} = arith.constant {n} : index" for n in range(-3, 4)]
    for line, (a, b, c, d, e) in enumerate(numbers):
        lines.append(f"""
  %p{line} = arith.addi %i, %k{a} : index
  %q{line} = arith.muli %p{line}, %k{b} : index
  %r{line} = arith.subi %q{line}, %k{c} : index
  %s{line} = arith.muli %k{d}, %j : index
  %t{line} = arith.subi %k{e}, %s{line} : index
  %u{line} = arith.addi %r{line}, %middle : index
  %v{line} = arith.addi %t{line}, %middle : index
  %line{line} = arith.constant {line} : index
  %x{line} = memref.load %view[%u{line}, %v{line}] : memref<64x64xf32, strided<[70, 1], offset: ?>>
  memref.store %x{line}, %out[%line{line}] : memref<40xf32>""")
    text = f"""
func.func @k(%id: index, %a: memref<5000xf32>, %out: memref<40xf32>) {{
  %seven = arith.constant 7 : index
  %middle = arith.constant 32 : index
  %i = arith.remui %id, %seven : index
  %j = arith.divui %id, %seven : index
  %begin = arith.addi %i, %seven : index
  %view = memref.reinterpret_cast %a to offset: [%begin], sizes: [64, 64], strides: [70, 1]
      : memref<5000xf32> to memref<64x64xf32, strided<[70, 1], offset: ?>>
{chr(10).join(lines)}
  return
}}"""
    machine = host_machine()
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        lower_memory_accesses(module, 64)
        assert "memref.load" not in str(module)
        for step in llvm_steps(machine):
            step.apply(module)
        kernel = kernel_of(load_object(emit_object(to_llvm_ir(module), machine)), "k")
    values = random.standard_normal(5000).astype(np.float32)
    found = np.empty(40, np.float32)
    for i, j in ((0, 0), (3, 2), (5, 7), (6, 9)):
        kernel(7 * j + i, values, found)
        a, b, c, d, e = numbers.T
        places = i + 7 + 70 * ((i + a) * b - c + 32) + (e - d * j + 32)
        assert 0 <= places.min() and places.max() < 5000
        np.testing.assert_array_equal(found, values[places])
