"""Tests that the tools of GPU vendors accept the PTX, cubin and hsaco files of whole programs.

The code orders its memory accesses as barriers require, and uses the instructions of the chip.
"""

from __future__ import annotations

import itertools
import re
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from code_objects import CodeObject, emit_isa, read_code_object
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.benchmarks.gpu.code import AMD, NVIDIA, compile_for_gpu
from rammer_mlir.benchmarks.models import LIGHT, TABLE_1, build
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OptionError, TargetError, UnsupportedError
from rammer_mlir.lowering.nvvm.ptx import emit_ptx
from rammer_mlir.lowering.nvvm.ptxas import assemble, find_ptxas, knows_chip, read_report
from rammer_mlir.lowering.nvvm.target import CHIPS
from rammer_mlir.lowering.rocdl.hsaco import read_resources
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.residency import (
    BlockNeeds,
    Multiprocessors,
    check_residency,
    resident_blocks,
)

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")

AMD_CHIPS = {"gfx906": 0x2F, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}
"""Codes of the processors in the ELF flags (LLVM's AMDGPU user guide)."""


def emit(model: bytes, target: str, stage: str, veus: int = 4) -> bytes:
    """Compile a serialized ONNX model for a target, and return the content of a stage.

    ``stage`` is a name such as ``ptx`` or ``cubin``.
    """
    return Compilation.of_model(
        model, check_options(target, policy="wavefront", num_veus=veus)
    ).emit(stage)


def small(name: str) -> bytes:
    """Return a benchmark model at its small scale, serialized."""
    return build(name, 1, "small").SerializeToString()


@needs_ptxas
@pytest.mark.parametrize(
    ("name", "chip"),
    [
        *itertools.product(
            ["attention", "nas_cell", "lstm_bidirectional", "integer_ops"],
            ["sm_75", "sm_80", "sm_90"],
        ),
        ("nasnet_a_6_768", "sm_90"),  # assembling it takes half a minute
    ],
)
def test_ptxas_accepts_programs(name: str, chip: str) -> None:
    """Programs are accepted by ptxas, need no library and spill no registers."""
    ptx = emit(small(name), f"nvvm:{chip}", "ptx").decode()
    assert ".extern" not in ptx and "__nv_" not in ptx
    assembled = assemble(ptx, chip)
    assert assembled.cubin.startswith(b"\x7fELF")
    resources = assembled.resources
    assert (resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0)
    assert 0 < resources.registers <= 255


def test_ptx_orders_memory_at_device_scope() -> None:
    """A poll acquires and backs off, a publication releases, without atomic read-modify-writes."""
    ptx = emit(small("nas_cell"), "nvvm:sm_90", "ptx").decode()
    assert "ld.acquire.gpu.global.b64" in ptx
    assert "st.release.gpu.global.b64" in ptx
    assert "nanosleep.u32" in ptx
    assert not re.search(r"\b(atom|red)\.", ptx)
    for match in re.finditer(r"ld\.acquire|st\.release", ptx):
        behind, before = ptx[match.start() :], ptx[: match.start()]
        near = behind if match.group() == "ld.acquire" else before
        assert "bar.sync" in near


def test_products_and_sums_are_fused() -> None:
    """Multiplications and additions become fused instructions, which are twice as fast."""
    ptx = emit(small("mlp"), "nvvm:sm_80", "ptx").decode()
    assert "fma.rn.f32" in ptx


def product(kind: int) -> bytes:
    """Return a serialized model of a matrix product that is large enough to be staged."""
    weight = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    element = helper.tensor_dtype_to_np_dtype(kind)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", kind, [64, 256])],
        [helper.make_tensor_value_info("y", kind, [64, 64])],
        [numpy_helper.from_array(weight.astype(element), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return model.SerializeToString()


@needs_ptxas
@pytest.mark.parametrize(
    ("kind", "chip", "instructions"),
    [
        (TensorProto.FLOAT, "sm_75", {"ld.shared.v4.b32", "st.shared.v4.b32", "fma.rn.f32"}),
        (TensorProto.FLOAT, "sm_80", {"ld.shared.v4.b32", "cp.async.cg.shared.global"}),
        (TensorProto.FLOAT16, "sm_80", {"mma.sync.aligned.m16n8k16", "ldmatrix.sync.aligned"}),
        (TensorProto.FLOAT16, "sm_90", {"mma.sync.aligned.m16n8k16", "cp.async.wait"}),
    ],
)
def test_products_are_staged(kind: int, chip: str, instructions: set[str]) -> None:
    """Operands are staged, and products computed, with the chip's own instructions.

    Operands of f32 are not rounded to tf32.
    """
    ptx = emit(product(kind), f"nvvm:{chip}", "ptx", veus=1).decode()
    assert not {found for found in instructions if found not in ptx}
    assert "tf32" not in ptx
    resources = assemble(ptx, chip).resources
    assert (resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942"])
@pytest.mark.parametrize(
    ("kind", "instruction"),
    [
        (TensorProto.FLOAT16, "v_mfma_f32_16x16x16_?f16 "),
        (TensorProto.BFLOAT16, "v_mfma_f32_16x16x16_?bf16(_1k)? "),
        (TensorProto.FLOAT, ""),
    ],
)
def test_matrix_instructions_of_amd(kind: int, instruction: str, chip: str) -> None:
    """AMD's matrix instructions are used for f16 and bf16 but not for f32, without spills."""
    options = check_options(f"rocdl:{chip}", policy="wavefront", num_veus=1)
    compilation = Compilation.of_model(product(kind), options)
    text = compilation.emit("llvm").decode()
    isa = emit_isa(text, chip)
    assert ("v_mfma" in isa) == bool(instruction)
    assert re.search(instruction, isa)
    resources = read_resources(compilation.emit("hsaco"))
    assert (resources.spill_store_bytes, resources.stack_bytes) == (0, 0)


@pytest.mark.parametrize("chip", ["gfx906", "gfx90a", "gfx942", "gfx1100"])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_narrow_products_on_amd(kind: int, chip: str) -> None:
    """Products of f16 and bf16 compile for all AMD chips, without undefined symbols.

    Some of these chips have no matrix instructions.
    """
    code = read_code_object(emit(product(kind), f"rocdl:{chip}", "hsaco", veus=1))
    assert [s.name for s in code.symbols if s.section == 0 and s.name] == []


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_tf32_where_it_is_asked_for(chip: str) -> None:
    """With ``+tf32``, operands are rounded to the nearest tf32; the PTX's target is the chip."""
    ptx = emit(product(TensorProto.FLOAT), f"nvvm:{chip}+tf32", "ptx", veus=1).decode()
    for instruction in ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "cvt.rna.tf32.f32"):
        assert instruction in ptx
    assert f".target {chip}" in ptx
    resources = assemble(ptx, chip).resources
    assert (resources.spill_store_bytes, resources.spill_load_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nvvm:sm_75+tf32", r"'nvvm:sm_75\+tf32': expected sm_80 or newer.*without tf32"),
        ("rocdl:gfx942+tf32", r"'rocdl:gfx942\+tf32': expected an nvvm target.*without it"),
    ],
)
def test_tf32_where_there_is_none(target: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        check_options(target, policy="wavefront", num_veus=1)


@pytest.mark.parametrize("target", ["nvvm:sm_90+", "nvvm:sm_90+fp8", "nvvm:+tf32+tf32"])
def test_unknown_features(target: str) -> None:
    with pytest.raises(OptionError, match=r"unknown target .*nvvm\[:CHIP\[\+tf32\]\]"):
        check_options(target, policy="wavefront", num_veus=1)


@pytest.mark.slow
@needs_ptxas
@pytest.mark.parametrize("chip", [*NVIDIA, *AMD])
@pytest.mark.parametrize("name", [*TABLE_1, *LIGHT])
def test_tools_accept_whole_models(name: str, chip: str) -> None:
    """Whole models compile without spills, and for AMD without undefined symbols in the linker."""
    code = compile_for_gpu(name, chip)
    assert (code.error, code.spill_bytes) == ("", 0)
    assert code.binary_bytes > 0


@pytest.mark.parametrize("chip", AMD_CHIPS)
@pytest.mark.parametrize("name", ["attention", "nas_cell"])
def test_hsaco_is_complete(name: str, chip: str) -> None:
    """An hsaco has no undefined symbols, is for its chip, and has a descriptor and metadata."""
    code = read_code_object(emit(small(name), f"rocdl:{chip}", "hsaco"))
    assert (code.machine, code.flags & 0xFF) == (224, AMD_CHIPS[chip])
    assert [s.name for s in code.symbols if s.section == 0 and s.name] == []
    assert "rammer_program" in {symbol.name for symbol in code.symbols}
    options = check_options(f"rocdl:{chip}", policy="wavefront", num_veus=4)
    image = Compilation.of_model(small(name), options).image
    assert isinstance(image, GpuImage)
    assert name != "attention" or image.shared_bytes > 16
    _check_descriptor(code, len(image.arguments), image.shared_bytes, chip)


def _check_descriptor(code: CodeObject, arguments: int, shared: int, chip: str) -> None:
    """Check the kernel descriptor, 64 bytes that a launch reads (LLVM's AMDGPU user guide).

    ``arguments`` is the number of the kernel's arguments, ``shared`` its shared memory in bytes.
    """
    descriptor = code.bytes_of("rammer_program.kd")
    assert len(descriptor) == 64
    group, _, kernarg = struct.unpack_from("<III", descriptor)
    properties = struct.unpack_from("<H", descriptor, 56)[0]
    assert group in (0, shared)  # LLVM drops a buffer whose content it knows
    assert kernarg >= 8 * arguments
    assert bool(properties & 1 << 10) == (chip == "gfx1100")  # waves of 32
    for text in (b".kernarg_segment_size", b".wavefront_size", b"rammer_program.kd"):
        assert text in code.notes


@pytest.mark.parametrize(("chip", "wait"), [("gfx90a", "s_waitcnt"), ("gfx1100", "s_waitcnt")])
def test_amd_code_orders_memory(chip: str, wait: str) -> None:
    """A poll refreshes the cache and sleeps, a publication releases, and lanes synchronize."""
    options = check_options(f"rocdl:{chip}", policy="wavefront", num_veus=4)
    compilation = Compilation.of_model(small("nas_cell"), options)
    text = compilation.emit("llvm").decode()
    assert re.search(r'load atomic i64, ptr addrspace\(1\) \S+ syncscope\("agent"\) acquire', text)
    assert re.search(r'store atomic i64 .* syncscope\("agent"\) release', text)
    isa = emit_isa(text, chip)
    for instruction in ("s_barrier", "s_sleep", wait):
        assert instruction in isa
    assert re.search("buffer_(wbinvl1|inv|gl0_inv|gl1_inv)", isa)


def test_functions_without_an_expansion_are_refused() -> None:
    """A function without an expansion is refused by name: LLVM would end the process."""
    node = helper.make_node("Exp", ["x"], ["y"])
    kind = TensorProto.DOUBLE
    graph = helper.make_graph(
        [node],
        "double",
        [helper.make_tensor_value_info("x", kind, [4])],
        [helper.make_tensor_value_info("y", kind, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    with pytest.raises(UnsupportedError, match=r"found math\.exp on f64; use the CPU target"):
        emit(model.SerializeToString(), "nvvm:sm_90", "ptx")


@pytest.mark.parametrize(
    ("kind", "name"), [(TensorProto.FLOAT16, "f16"), (TensorProto.FLOAT, "f32"),
                       (TensorProto.DOUBLE, "f64")]
)  # fmt: skip
def test_remainders(kind: int, name: str) -> None:
    """Remainders of f16 and f32 become arithmetic; f64 is refused, as it would need a library."""
    graph = helper.make_graph(
        [helper.make_node("Mod", ["x", "y"], ["z"], fmod=1)],
        "remainder",
        [helper.make_tensor_value_info(name, kind, [4]) for name in "xy"],
        [helper.make_tensor_value_info("z", kind, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    if name == "f64":
        with pytest.raises(UnsupportedError, match=r"found arith\.remf on f64; use the CPU target"):
            emit(model.SerializeToString(), "rocdl:gfx90a", "hsaco")
        return
    code = emit(model.SerializeToString(), "rocdl:gfx90a", "hsaco")  # refuses undefined symbols
    assert code.startswith(b"\x7fELF")
    assert b".rem.f" not in emit(model.SerializeToString(), "nvvm:sm_80", "ptx")


DEVICE = Multiprocessors(count=10, threads=2048, registers=65536, shared_bytes=100 << 10)


@pytest.mark.parametrize(
    ("block", "most"),
    [
        (BlockNeeds(256, 32, 0), 80),  # threads
        (BlockNeeds(256, 255, 1024), 10),  # registers, given out in units of 256 to a warp
        (BlockNeeds(256, 65, 16), 30),
        (BlockNeeds(256, 32, 48 << 10), 20),  # shared memory
        (BlockNeeds(1024, 128, 0), 0),
    ],
)
def test_residency(block: BlockNeeds, most: int) -> None:
    """Threads, registers and shared memory each limit the number of resident blocks."""
    assert resident_blocks(DEVICE, block) == most
    check_residency("nvvm:sm_90", most, DEVICE, block)
    with pytest.raises(TargetError, match=f"expected at most {most} vEUs.*found {most + 1}"):
        check_residency("nvvm:sm_90", most + 1, DEVICE, block)


@needs_ptxas
def test_a_program_that_cannot_be_resident_is_refused() -> None:
    """A program of 272 blocks is refused: the usual board of sm_75 has only 68 multiprocessors."""
    with pytest.raises(TargetError, match=r"'nvvm:sm_75': expected at most .* vEUs.*found 272"):
        emit(small("mlp"), "nvvm:sm_75", "cubin", veus=272)


def test_reports_are_read() -> None:
    """A report of ptxas 13 on several functions is read.

    The result has the largest number of registers, and the largest sizes, of any function.
    """
    report = read_report(
        "ptxas info    : Function properties for a\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 688 bytes smem, 408 bytes cmem[0]\n"
        "ptxas info    : Used 32 registers, used 1 barriers\n"
    )
    found = (report.registers, report.shared_bytes, report.stack_bytes)
    assert found == (40, 688, 8)
    assert (report.spill_store_bytes, report.spill_load_bytes) == (4, 12)


@pytest.mark.parametrize("chip", CHIPS)
def test_every_nvidia_chip_is_known_to_llvm(chip: str) -> None:
    """LLVM selects instructions for every NVIDIA chip, including the instructions of barriers."""
    ptx = emit(small("nas_cell"), f"nvvm:{chip}", "ptx").decode()
    assert f".target {chip}" in ptx and "nanosleep" in ptx


def test_missing_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rammer_mlir.lowering.nvvm.ptxas.find_ptxas", lambda: None)
    with pytest.raises(TargetError, match=r"expected NVIDIA's 'ptxas' .*, found none; install it"):
        assemble(".version 8.0", "sm_90")


def test_ptxas_is_found_in_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If PATH has no ptxas, that of NVIDIA's wheels is found."""
    tool = tmp_path / "nvidia" / "cu13" / "bin" / "ptxas"
    tool.parent.mkdir(parents=True)
    tool.touch()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert find_ptxas() == str(tool)


@pytest.mark.parametrize(
    ("count", "version"), [(500, "7.8"), (544, "7.8"), (545, "8.1"), (4095, "8.1")]
)
def test_many_parameters_need_a_newer_ptx(count: int, version: str) -> None:
    """PTX 8.1 allows parameters of 32,764 instead of 4,352 bytes."""
    parameters = ", ".join(f"ptr %{number}" for number in range(count))
    text = f"define ptx_kernel void @k({parameters}) {{\n  ret void\n}}\n"
    assert f".version {version}" in emit_ptx(text, "sm_90")


def test_too_many_parameters() -> None:
    parameters = ", ".join(f"ptr %{number}" for number in range(4096))
    with pytest.raises(TargetError, match="expected at most 4095 inputs, outputs and other"):
        emit_ptx(f"define ptx_kernel void @k({parameters}) {{\n  ret void\n}}\n", "sm_90")


@needs_ptxas
def test_chips_that_ptxas_no_longer_knows() -> None:
    """The driver compiles the PTX for such a chip."""
    assert knows_chip("sm_90")
    assert not knows_chip("sm_50")
