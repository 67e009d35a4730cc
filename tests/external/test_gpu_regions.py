"""Tests that code generators compute regions on GPUs.

Regions are always kept, or only if the plan becomes faster, as the user chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.codegens import (
    CompositePattern,
    Device,
    Limits,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    register_codegen,
)
from rammer_mlir.errors import RammerError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.runtime.compiled import CompiledModel

PRODUCT = """
define void @{name}(i64 %row, i32 %thread, i32 %threads, ptr %x, ptr %w, ptr %y, ptr %scratch) {{
  %first = zext i32 %thread to i64
  %step = zext i32 %threads to i64
  %from = mul i64 %row, {sums}
  %to = mul i64 %row, {columns}
  %own = mul i64 %row, {scratch}
  %sums = getelementptr i8, ptr %scratch, i64 %own
  br label %columns
columns:
  %j = phi i64 [%first, %0], [%following, %stored]
  %more = icmp ult i64 %j, {columns}
  br i1 %more, label %start, label %done
start:
  %own_sum = getelementptr float, ptr %sums, i64 %j
  store float 0.0, ptr %own_sum
  br label %loop
loop:
  %k = phi i64 [0, %start], [%next, %loop]
  %xi = add i64 %from, %k
  %xp = getelementptr float, ptr %x, i64 %xi
  %xv = load float, ptr %xp
  %wk = mul i64 %k, {columns}
  %wi = add i64 %wk, %j
  %wp = getelementptr float, ptr %w, i64 %wi
  %wv = load float, ptr %wp
  %product = fmul float %xv, %wv
  %before = load float, ptr %own_sum
  %sum = fadd float %before, %product
  store float %sum, ptr %own_sum
  %next = add i64 %k, 1
  %again = icmp ult i64 %next, {sums}
  br i1 %again, label %loop, label %stored
stored:
  %result = load float, ptr %own_sum
  %yi = add i64 %to, %j
  %yp = getelementptr float, ptr %y, i64 %yi
  store float %result, ptr %yp
  %following = add i64 %j, %step
  br label %columns
done:
  ret void
}}"""


class Rowwise:
    """A code generator of products; each rTask computes a row, with its sums in scratch memory."""

    name: ClassVar[str] = "rowwise"

    def __init__(self) -> None:
        self.targets: set[str] = set()
        self.change: dict[str, Any] = {}

    def patterns(self) -> Sequence[CompositePattern]:
        return []

    def supports(self, reading: Reading) -> bool:
        return reading.kind == "matmul"

    def limits(self) -> Limits:
        return Limits(operations=1)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True

    def generate(self, region: Region) -> RegionCode:
        self.targets.add(region.target)
        (rows, sums), (_, columns) = (ir.RankedTensorType(kind).shape for kind in region.inputs)
        scratch = -(-4 * columns // 64) * 64
        text = PRODUCT.format(name=region.name, sums=sums, columns=columns, scratch=scratch)
        code = RegionCode(
            text,
            region.name,
            form="llvm",
            num_rtasks=rows,
            reads={0: [("d0", 1), (0, sums)]},
            writes={0: [("d0", 1), (0, columns)]},
            alignment=16,
            scratch_bytes=4 * columns,
        )
        return replace(code, **self.change)


@pytest.fixture
def rowwise() -> Iterator[Rowwise]:
    """Return the code generator ``Rowwise``, registered during the test."""
    made = Rowwise()
    register_codegen(made)
    yield made
    CODEGENS.unregister("rowwise")


def chain(rows: int = 6, sums: int = 40, columns: int = 12) -> onnx.ModelProto:
    """Return a model of two products with a Relu between them and a Tanh behind."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> '
        f"g (float[{rows},{sums}] x) => (float[{rows},{columns}] y) "
        "{ a = MatMul(x, w)  b = Relu(a)  c = MatMul(b, v)  y = Tanh(c) }"
    )
    rng = np.random.default_rng(0)
    for name, shape in {"w": (sums, 24), "v": (24, columns)}.items():
        values = rng.standard_normal(shape).astype(np.float32) / 4
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def compiled(target: str, model: onnx.ModelProto | None = None, **options: Any) -> CompiledModel:
    options = {"offload": "rowwise", "offload_choice": "always", "num_veus": 3, **options}
    found = rammer_mlir.compile(model or chain(), target=target, cache=False, **options)
    assert isinstance(found, CompiledModel)
    return found


def forms(exe: CompiledModel) -> list[str]:
    assert isinstance(exe.image, GpuImage)
    return [module.form for module in exe.image.modules]


@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx1100"])
def test_regions_run_on_emulated_gpus(target: str, policy: str, rowwise: Rowwise) -> None:
    import onnxruntime as ort

    exe = compiled(target, policy=policy, emulate=True)
    assert forms(exe) == ["llvm", "llvm"]
    assert rowwise.targets == {f"emulator:{target}"}
    x = np.random.default_rng(1).standard_normal((6, 40)).astype(np.float32)
    (wanted,) = ort.InferenceSession(chain().SerializeToString()).run(None, {"x": x})
    for _ in range(2):
        np.testing.assert_allclose(exe.run({"x": x})["y"], np.asarray(wanted), atol=1e-5)


def test_regions_in_code_objects(rowwise: Rowwise) -> None:
    assert forms(compiled("rocdl:gfx90a")) == ["llvm", "llvm"]
    assert rowwise.targets == {"rocdl:gfx90a"}


@pytest.mark.parametrize(("efficiency", "kept"), [(1e6, 1), (1e-6, 0)])
def test_the_plan_decides(efficiency: float, kept: int, rowwise: Rowwise) -> None:
    """A choice by cost keeps fast code of the first product only, and no slow code.

    The second product has few operations for its bytes, so that bandwidth limits it. On an A100,
    few loads in flight would limit the first product, too; hence the costs of a V100.
    """
    rowwise.change = {"efficiency": efficiency}
    model = chain(4000, 1000, 1000)
    exe = compiled("nvvm:sm_80", model, offload_choice="cost", emulate=True, costs="v100")
    assert len(forms(exe)) == kept == exe.stats["offload"]["kept"]
    assert f"{kept} of 2 regions" in exe.summary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"form": "c"}, "a form that the target rocdl:gfx90a runs, llvm, found c; choose another"),
        ({"has_state": True}, "expected a function without a state for rocdl:gfx90a"),
        ({"objects": (b"object",)}, "expected no objects for rocdl:gfx90a, found 1"),
    ],
    ids=["form", "state", "objects"],
)
def test_faults_are_one_line(change: dict[str, Any], message: str, rowwise: Rowwise) -> None:
    rowwise.change = change
    with pytest.raises(RammerError, match=message) as found:
        compiled("rocdl:gfx90a")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("numpy", "code generator 'numpy': expected .* runs, llvm, ptx, cuda, found graph"),
        ("iree", "code generator 'iree': expected a CPU as target, found 'nvvm:sm_80'"),
    ],
)
def test_code_generators_for_cpus_are_refused(name: str, message: str) -> None:
    with pytest.raises(RammerError, match=message) as found:
        compiled("nvvm:sm_80", offload=name)
    assert "\n" not in str(found.value)
