"""Tests that external rKernels in LLVM IR, PTX and CUDA source are compiled for GPUs.

They become a part of the program's persistent kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from onnx import parser

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.checker import verify
from rammer_mlir.cli import run as run_tool
from rammer_mlir.errors import OptionError, RammerError, TargetError
from rammer_mlir.extend import OfferedOperator, external_rkernel
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.nvvm.cuda_compiler import compile_cuda
from rammer_mlir.lowering.nvvm.nvidia_tools import find_tool
from rammer_mlir.lowering.nvvm.nvrtc import find_nvrtc
from rammer_mlir.lowering.nvvm.ptxas import find_ptxas
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.records import RunRecord
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from tests.external.gpu_code import TRIPLED_CUDA, TRIPLED_IR, TRIPLED_PTX, compiled, tripled_product
from tests.external.providers import COLUMNS, ROWS, Rows, offered

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
needs_cuda = pytest.mark.skipif(
    find_nvrtc() is None and find_tool("nvcc") is None, reason="needs NVRTC or nvcc"
)
FORMS = [
    Rows(TRIPLED_IR, "llvm"),
    Rows(TRIPLED_PTX, "ptx"),
    pytest.param(Rows(TRIPLED_CUDA, "cuda"), marks=needs_cuda),
]


def feeds() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    shapes = {"x": (ROWS, COLUMNS), "w": (COLUMNS, 8)}
    return {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}


@pytest.mark.parametrize("target", ["nvvm:sm_90", "rocdl:gfx90a"])
def test_llvm_ir_runs_on_emulated_gpus(target: str) -> None:
    """An rKernel in LLVM IR runs beside rKernels of the compiler, on several vEUs, and is right."""
    from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime

    exe = compiled(Rows(TRIPLED_IR, "llvm"), target, num_veus=3, emulate=True)
    wanted = np.asarray(OnnxRuntime(tripled_product()).run(feeds())["z"], np.float32)
    for _ in range(2):  # step counters go on
        found = np.asarray(exe.run(feeds())["z"], np.float32)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    image = exe.image
    assert isinstance(image, GpuImage)
    (module,) = image.modules
    assert (module.form, module.operations) == ("llvm", ROWS * COLUMNS)
    (launch,) = image.program.launches
    foreign = {number for number, each in enumerate(image.program.kernels) if "rows" in each.name}
    assert set(module.kernels) == foreign
    ran = {
        veu
        for veu, records in enumerate(launch.veus)
        for record in records
        if isinstance(record, RunRecord)
        and image.program.operators[record.operator].kernel in foreign
    }
    assert ran == {0, 1, 2}


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("rows", FORMS, ids=lambda rows: rows.form)
def test_nvidia_gpus(rows: Rows, chip: str, tmp_path: Path) -> None:
    """The cubin has the external function's code; the saved artifact is proven and loaded."""
    exe = compiled(rows, f"nvvm:{chip}")
    assert isinstance(exe, GpuExecutable)
    assert exe.image.code_kind == "cubin" and b"rows" in exe.code
    assert exe.image.resources is not None
    has_shared = rows.form != "llvm"
    assert (exe.image.resources.shared_bytes >= 256) is has_shared
    path = tmp_path / "rows.rammer"
    exe.save(path)
    verify(path)
    loaded = rammer_mlir.load(path)
    assert isinstance(loaded, GpuExecutable) and loaded.image.modules == exe.image.modules


def _knows_none(_chip: str) -> bool:
    return False


@pytest.mark.parametrize("rows", FORMS, ids=lambda rows: rows.form)
def test_ptx_is_whole(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ptxas, the artifact has PTX for the driver: it has one header and no ``.extern``."""
    monkeypatch.setattr("rammer_mlir.compiler.backends.nvvm.knows_chip", _knows_none)
    exe = compiled(rows, "nvvm:sm_80")
    assert isinstance(exe, GpuExecutable)
    ptx = exe.code.decode()
    assert ".extern" not in ptx and ptx.count(".version") == ptx.count(".target") == 1
    assert ptx.index(".target sm_80") < ptx.index("rows") < ptx.index("call.uni")


def test_amd_gpus() -> None:
    exe = compiled(Rows(TRIPLED_IR, "llvm"), "rocdl:gfx90a")
    assert isinstance(exe, GpuExecutable)
    assert exe.image.code_kind == "hsaco" and b"\0rows\0" in exe.code


def test_modules_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exe = compiled(Rows(TRIPLED_IR, "llvm"), "rocdl:gfx90a")
    path = tmp_path / "rows.rammer"
    exe.save(path)
    assert run_tool.main([str(path), "--modules"]) == 0
    out = capsys.readouterr().out
    assert "module 'code'  llvm, 1 rOperators" in out and "1 of 2 rOperators" in out


def test_a_provider_knows_the_target() -> None:
    seen: list[str] = []

    class Asking(Rows):
        def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
            seen.append(operator.target)
            return []

    compiled(Asking(), "rocdl:gfx90a")
    compiled(Asking(), "nvvm:sm_80", emulate=True)
    compiled(Asking(), "cpu")
    assert list(dict.fromkeys(seen)) == ["rocdl:gfx90a", "emulator:nvvm:sm_80", "cpu"]


POSITIVE = """
define void @positive(i64 %rtask, i32 %thread, i32 %threads, ptr %x, ptr %y) {
  %go = icmp ult i32 %thread, 64
  br i1 %go, label %one, label %done
one:
  %i = zext i32 %thread to i64
  %row = mul i64 %rtask, 64
  %at = add i64 %row, %i
  %p = getelementptr float, ptr %x, i64 %at
  %v = load float, ptr %p
  %c = fcmp ogt float %v, 0.0
  %b = zext i1 %c to i8
  %q = getelementptr i8, ptr %y, i64 %at
  store i8 %b, ptr %q
  br label %done
done:
  ret void
}"""


@dataclass
class Positive(Rows):
    """A provider of an rKernel in LLVM IR that tells of each element whether it is positive."""

    name: ClassVar[str] = "rows"

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        """Offer the rKernel if the output is a ROWS x COLUMNS tensor of booleans (bytes)."""
        if operator.outputs != (ir.Type.parse(f"tensor<{ROWS}x{COLUMNS}xi1>"),):
            return []
        given = {"reads": {0: self.box}, "writes": {0: self.box}, "num_rtasks": ROWS}
        work: Any = {"operations": 64, "num_bytes": 320}
        return [external_rkernel(operator, POSITIVE, "positive", form="llvm", **given, **work)]


def test_booleans_are_bytes() -> None:
    size = f"[{ROWS},{COLUMNS}]"
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float{size} x) => (bool{size} y, bool{size} z)'
        " <float zero = {0}> { y = Greater(x, zero)  z = Not(y) }"
    )
    x = feeds()["x"]
    found = compiled(Positive(), "nvvm:sm_90", model, emulate=True).run({"x": x})
    assert np.array_equal(found["y"], x > 0) and np.array_equal(found["z"], x <= 0)


NEWER = TRIPLED_PTX.replace("sm_70", "sm_90")
WITH_RESULT = TRIPLED_PTX.replace(".func rows", ".func (.param .b32 r) rows")
NARROW = TRIPLED_PTX.replace(".param .b64 rows_param_0", ".param .b32 rows_param_0")
CALLS = TRIPLED_PTX.replace(".visible", ".extern .func helper(.param .b32 x);\n.visible", 1)
BESIDE = "declare void @helper()\n" + TRIPLED_IR.replace("ret void", "call void @helper() ret void")
LIBRARY = "declare float @llvm.exp.f32(float)\n" + TRIPLED_IR.replace(
    "fmul float %v, 3.0", "call float @llvm.exp.f32(float %v)"
)
TOO_FEW = TRIPLED_IR.replace("ptr %x, ptr %y", "ptr %y").replace("%x", "%y")
NVIDIA_ONLY = "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n" + TRIPLED_IR.replace(
    "ret void", "%t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x() ret void"
)


SM_80, AMD = "nvvm:sm_80", "rocdl:gfx90a"


@pytest.mark.parametrize(
    ("rows", "target", "message"),
    [
        (Rows(), SM_80, "code of the form llvm, ptx, cuda for nvvm:sm_80, found 'c'"),
        (Rows(TRIPLED_PTX, "ptx"), AMD, "of the form llvm for rocdl:gfx90a, found 'ptx"),
        (Rows(TRIPLED_PTX, "ptx"), "cpu", "code of a form for a CPU, .*, found 'ptx'; choose"),
        (Rows(NEWER, "ptx"), SM_80, r"PTX for sm_80 or an older chip, found '.target sm_90'"),
        (Rows("nothing", "ptx"), SM_80, "module 'code': expected PTX for sm_80 .* found none"),
        (Rows(WITH_RESULT, "ptx"), SM_80, "and no result, found one with a result"),
        (Rows(NARROW, "ptx"), SM_80, "of 64, 32, 32, 64, 64 bits .* 32, 32, 32, 64, 64; mend"),
        (Rows(CALLS, "ptx"), SM_80, "definitions of all that it uses, found '.extern' 'helper"),
        (Rows(TRIPLED_PTX, "ptx", "columns"), SM_80, "the function 'columns', found none"),
        (Rows(TRIPLED_IR, "llvm", "columns"), SM_80, "the function 'columns', found none"),
        (Rows("define nothing", "llvm"), SM_80, "module 'code': expected LLVM IR that LLVM"),
        (Rows(BESIDE, "llvm"), SM_80, "found a call of 'helper'; mend it"),
        (Rows(TOO_FEW, "llvm"), SM_80, r"ptr, ptr\)', found 'void \(i64, i32, i32, ptr\)'; mend"),
        (Rows(LIBRARY, "llvm"), SM_80, r"found a call of 'llvm\.exp\.f32'"),
        (Rows(NVIDIA_ONLY, "llvm"), AMD, r"found a call of 'llvm\.nvvm\.read"),
        (Rows(TRIPLED_IR, "llvm", "rammer_await"), SM_80, "a name that the compiler does not"),
    ],
)
def test_faults_are_one_line(rows: Rows, target: str, message: str) -> None:
    with pytest.raises(RammerError, match=message) as found:
        compiled(rows, target)
    assert "\n" not in str(found.value)


@needs_ptxas
def test_the_assembler_refuses_unknown_instructions() -> None:
    wrong = TRIPLED_PTX.replace("mul.rn", "mull.rn")
    with pytest.raises(TargetError, match=r"expected ptxas to accept it, found .*mull") as found:
        compiled(Rows(wrong, "ptx"), "nvvm:sm_80")
    assert "\n" not in str(found.value)


@needs_cuda
def test_faults_of_cuda_source_are_one_line() -> None:
    with pytest.raises(TargetError, match=r"module 'code': expected CUDA source .*error") as found:
        compiled(Rows("extern int rows(", "cuda"), "nvvm:sm_80")
    assert "\n" not in str(found.value)


@needs_cuda
def test_cuda_source_gives_the_same_ptx_again() -> None:
    """The same source gives the same PTX, also with static variables, which compilers rename."""
    table = "static __device__ const float table[2] = {3.0f, 3.0f};\n"
    source = table + TRIPLED_CUDA.replace("tripled(row[i])", "table[i & 1] * row[i]")
    code = ForeignCode("code", "cuda", source.encode(), ("rows",))
    first, second = (compile_cuda(code, "sm_80") for _ in range(2))
    assert first == second and "table" in first


def test_no_cuda_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = "rammer_mlir.lowering.nvvm.cuda_compiler"
    monkeypatch.setattr(f"{tools}.find_nvrtc", lambda: None)
    monkeypatch.setattr(f"{tools}.find_tool", {}.get)
    with pytest.raises(TargetError, match=r"pip install rammer-mlir\[offload-cuda\]") as found:
        compiled(Rows(TRIPLED_CUDA, "cuda"), "nvvm:sm_80")
    assert "\n" not in str(found.value)


def test_checks_see_none_of_it() -> None:
    with pytest.raises(TargetError, match=r"emulation with checks: .*'code'"):
        compiled(Rows(TRIPLED_IR, "llvm"), "nvvm:sm_80", emulate=True, check=True)
    with pytest.raises(TargetError, match="form llvm for emulator:nvvm:sm_80, found 'ptx'"):
        compiled(Rows(TRIPLED_PTX, "ptx"), "nvvm:sm_80", emulate=True)


def test_code_is_not_tried_on_gpus() -> None:
    with offered(Rows()), pytest.raises(OptionError, match="offload_check"):
        rammer_mlir.compile(tripled_product(), target="nvvm:sm_80", offload_check=True)
