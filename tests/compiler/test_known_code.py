"""Programs with the same code share one compiled object; the least recently used is dropped."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rammer_mlir.benchmarks.models import build
from rammer_mlir.compiler import steps
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.shared_code import KnownCode
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.lowering.nvvm.ptxas import find_ptxas
from rammer_mlir.programs.gpu_image import GpuCode, GpuImage


def test_the_last_used_are_kept() -> None:
    known = KnownCode[bytes]()
    names = [bytes([number]) for number in range(17)]
    for name in names[:16]:
        known.keep(name, name)
    assert known.find(names[0]) == names[0]
    known.keep(names[16], names[16])
    assert known.find(names[1]) is None
    assert [known.find(name) for name in (names[0], names[2], names[16])] == [
        names[0],
        names[2],
        names[16],
    ]


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
def test_equal_kernels_of_a_gpu_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that differ in their schedules, so only in tables, share a compiled kernel."""
    emitted: list[str] = []
    emit = steps.emit_ptx

    def noted(text: str, *others: Any) -> str:
        emitted.append(text)
        return emit(text, *others)

    monkeypatch.setattr(steps, "emit_ptx", noted)
    imported = import_model(build("attention", scale="small"))
    known = KnownCode[GpuCode]()

    def code(*, per_operator: bool, is_known: bool) -> tuple[bytes, GpuImage]:
        options = check_options(
            "nvvm:sm_90", policy="sequential", per_operator=per_operator, num_veus=4
        )
        compilation = Compilation.of_import(imported, options, time.perf_counter())
        if is_known:
            compilation.use_known_kernels(known)
        made = compilation.code()
        assert isinstance(made.image, GpuImage)
        return made.binary, made.image

    apart = code(per_operator=True, is_known=False)
    assert len(emitted) == 1
    code(per_operator=False, is_known=True)
    again = code(per_operator=True, is_known=True)
    assert len(emitted) == 2
    assert again[0] == apart[0] and again[1].resources == apart[1].resources
    assert again[1].code_kind == "cubin" and len(again[1].tables) > 1
