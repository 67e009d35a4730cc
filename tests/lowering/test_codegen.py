"""Tests that LLVM IR text becomes objects and linked libraries for this and other machines.

The machine code of a matmul keeps its accumulators in registers; wrong input is refused.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import shutil
import struct
import threading
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from kernel_harness import assembly, lower_text
from machines import AARCH64, X86_64_AVX2, X86_64_AVX512, X86_64_BASELINE

from rammer_mlir.bindings import ir
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm import builders, link, machine
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.float_literals import literal_bits, rewrite_float_literals
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.translation import to_llvm_ir

_DOUBLE_IT = """
declare float @llvm.exp.f32(float)
define float @twice_exp(float %x) {
  %e = call float @llvm.exp.f32(float %x)
  %y = fmul float %e, 2.0
  ret float %y
}
"""

_MATMUL = """
func.func private @k(%id: index, %a: memref<56x64xf32>, %b: memref<64x64xf32>,
                     %c: memref<56x64xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<56x64xf32>)
  linalg.matmul ins(%a, %b : memref<56x64xf32>, memref<64x64xf32>) outs(%c : memref<56x64xf32>)
  return
}"""


def test_load_object_resolves_libm() -> None:
    library = load_object(emit_object(_DOUBLE_IT, machine.host_machine()))
    function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(library.address("twice_exp"))
    assert function(1.0) == pytest.approx(2 * math.e, rel=1e-6)
    with pytest.raises(TargetError, match="'absent'"):
        library.address("absent")


def test_bf16_on_processors_without_conversions() -> None:
    text = """
define bfloat @narrow(float %x) {
  %y = fptrunc float %x to bfloat
  ret bfloat %y
}
define i16 @bits(float %x) {
  %y = call bfloat @narrow(float %x)
  %bits = bitcast bfloat %y to i16
  ret i16 %bits
}"""
    host = machine.host_machine()
    without = ",".join(("-avx512bf16", "-avxneconvert")) if "x86" in host.triple else "-bf16"
    plain = replace(host, features=f"{host.features},{without}")
    library = load_object(emit_object(text, plain))
    bits = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_float)(library.address("bits"))
    rng = np.random.default_rng(5)
    words = rng.integers(0, 1 << 32, 2000, np.uint32)
    ties = rng.integers(0, 1 << 16, 200, np.uint32) << 16 | 0x8000
    values = np.concatenate((words, ties)).view(np.float32)
    values = np.append(values, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], np.float32))
    found = np.array([bits(value) for value in values], np.uint16)
    with np.errstate(invalid="ignore"):
        wanted = values.astype(ml_dtypes.bfloat16)
    nan = np.isnan(values)
    np.testing.assert_array_equal(found[~nan], wanted[~nan].view(np.uint16))
    assert np.isnan(found[nan].view(ml_dtypes.bfloat16).astype(np.float32)).all()


def test_load_object_refuses_garbage() -> None:
    with pytest.raises(TargetError, match="object for this machine"):
        load_object(b"not an object")


def test_link_shared(tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    library.write_bytes(link.link_shared(emit_object(_DOUBLE_IT, machine.host_machine())))
    function = ctypes.CDLL(str(library)).twice_exp
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    assert function(0.0) == 2.0


def test_link_without_a_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", nothing)
    monkeypatch.setattr(link.importlib.util, "find_spec", nothing)
    with pytest.raises(TargetError, match="rammer-mlir\\[link\\]"):
        link.link_shared(b"")


def test_link_failure_shows_the_command() -> None:
    with pytest.raises(TargetError, match=r"the command was: .*-shared"):
        link.link_shared(b"not an object")


def test_unlowered_module_is_refused() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f() { return }")
        with pytest.raises(TargetError, match=r"func\.func"):
            to_llvm_ir(module)


def test_vector_bits_follow_the_features() -> None:
    avx512 = {"avx512f": True, "avx512vl": True, "avx512bw": True, "avx2": True, "fma": True}
    triple = "x86_64-unknown-linux-gnu"
    assert machine.vector_bits_of(triple, avx512) == 512
    assert machine.vector_bits_of(triple, avx512 | {"avx512bw": False}) == 256
    assert machine.vector_bits_of(triple, {"avx2": True}) == 128
    assert machine.vector_bits_of("aarch64-unknown-linux-gnu", {"neon": True}) == 128


def test_unknown_triple() -> None:
    with pytest.raises(TargetError, match="'abacus'"):
        machine.Machine("abacus", "", "", 128).create_target_machine()


@pytest.mark.parametrize(
    ("kind", "literal", "bits"),
    [
        ("float", "+inf", 0x7F800000),
        ("float", "-qnan", 0xFFC00000),
        ("float", "+snan(0x1)", 0x7F800001),
        ("float", "+nan(0x1)", 0x7FC00001),
        ("float", "f0x4B800000", 0x4B800000),
        ("float", "1.000000e-01", 0x3DCCCCCD),
        ("half", "+inf", 0x7C00),
        ("half", "9.997550e-02", 0x2E66),
        ("bfloat", "-inf", 0xFF80),
        ("bfloat", "1.000980e-01", 0x3DCD),
        ("double", "-inf", 0xFFF0000000000000),
        ("double", "1.000000e-01", struct.unpack("<Q", struct.pack("<d", 0.1))[0]),
    ],
)
def test_float_literals(kind: str, literal: str, bits: int) -> None:
    assert literal_bits(kind, literal) == bits


def test_float_literals_take_the_type_before_them() -> None:
    line = "  %3 = fcmp olt half %1, +inf\n  ret void"
    assert rewrite_float_literals(line) == "  %3 = fcmp olt half %1, 0xH7C00\n  ret void"
    untouched = '@name = constant i32 1 ; %x.1 and "a-b"'
    assert rewrite_float_literals(untouched) == untouched


@pytest.mark.parametrize(
    ("target", "register", "least"),
    [(X86_64_AVX512, "zmm", 20), (X86_64_AVX2, "ymm", 8)],
)
def test_matmul_keeps_its_accumulators(target: machine.Machine, register: str, least: int) -> None:
    """A matmul has enough accumulators for two fused multiply-adds per cycle, and none is spilled.

    Each fused multiply-add takes four cycles.
    """
    text = assembly(_MATMUL, target)
    body = re.findall(rf"vfmadd\w+ps\t.*%{register}(\d+)$", text, re.M)
    assert len(set(body)) >= least
    assert not re.search(rf"vmovups?\t%{register}\d+, -?\d*\(%rsp\)", text)


@pytest.mark.parametrize("target", [X86_64_BASELINE, AARCH64])
def test_baseline_targets_compile(target: machine.Machine) -> None:
    text = assembly(_MATMUL, target)
    assert re.search(r"\bmulps\b|\bfmla\b", text)


def test_half_conversions_need_no_library() -> None:
    source = _MATMUL.replace("f32", "f16")
    for target in (X86_64_BASELINE, X86_64_AVX2):
        assert "hfsf2" not in assembly(source, target)
        assert "bfsf2" not in assembly(source.replace("f16", "bf16"), target)


def test_kernels_call_no_runtime_library() -> None:
    assert not re.search(r"^declare .*@(?!llvm\.)", lower_text(_MATMUL), re.M)


def _resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


def test_optimization_passes_are_freed() -> None:
    """Each compilation used to leave 49 KiB of LLVM's passes behind."""
    text = "define i64 @f(i64 %a) {\n  %b = add i64 %a, 1\n  ret i64 %b\n}\n"
    for _ in range(20):
        emit_object(text, machine.host_machine())
    before = _resident_bytes()
    for _ in range(200):
        emit_object(text, machine.host_machine())
    assert _resident_bytes() - before < 200 * 16 * 1024


def test_a_forked_child_can_compile() -> None:
    """A fork waits until no other thread is in LLVM, so that the child gets its lock."""
    held, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with machine.LLVM_LOCK:
            held.set()
            ended.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if machine.LLVM_LOCK.acquire(timeout=5) else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("index", [3, -1, 2**31, -(2**31), 2**40])
def test_constant_indices_beyond_32_bits(index: int) -> None:
    text = """module {
      llvm.func @f(%p: !llvm.ptr) -> !llvm.ptr { llvm.return %p : !llvm.ptr } }"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        function = module.body.operations[0].operation
        block = function.regions[0].blocks[0]
        end = block.operations[0].operation
        with ir.InsertionPoint(end):
            byte = ir.IntegerType.get_signless(8)
            end.operands[0] = builders.element(block.arguments[0], index, byte)
        assert module.operation.verify()
        emitted = to_llvm_ir(module)
    assert f"i64 {index}" in emitted or f"i32 {index}" in emitted
