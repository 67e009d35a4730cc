"""Tests that timelines, listings and pages show foreign code.

Timelines show that rTasks of foreign code and of the compiler run at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import run as run_tool
from rammer_mlir.codegens import Region, RegionCode, Requirement
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OptionError
from rammer_mlir.extend import OfferedOperator, external_rkernel
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.timeline.files import write_timelines
from rammer_mlir.timeline.spans import Timeline
from rammer_mlir.timeline.trace_events import rtask_range
from tests.external.providers import Rows, compiled

SLEEPING = """
#include <stdint.h>
#include <time.h>
int32_t sleeping(int64_t rtask, const float *x, float *y) {
  struct timespec pause = {0, 30000000};
  nanosleep(&pause, 0);
  for (int i = 0; i < 64; i++) y[i] = -x[i];
  return 0;
}"""

BRANCHES = parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
g (float[64] x, float[512,512] a) => (float[64] y, float[512,512] c) {
  y = Neg(x)  b = MatMul(a, a)  c = MatMul(b, a) }""")
"""Two branches: one that sleeps, and products."""


class Sleeping:
    """A provider of an external rKernel that sleeps, and then negates."""

    name: ClassVar[str] = "sleeping"

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        kind = ir.Type.parse("tensor<64xf32>")
        if operator.inputs != (kind,) or operator.outputs != (kind,):
            return []
        return [external_rkernel(operator, SLEEPING, "sleeping", operations=64, num_bytes=512)]


def slow_rtasks(kernel: RKernel, device: Device) -> float | None:
    """A cost function: 30 ms for the external rTask, a second for other small rTasks.

    A small rTask is the only rTask of its rKernel, and accesses less than 1 KiB. For all others,
    the function returns None, so that the device's model decides.
    """
    if "sleeping" in kernel.name:
        return 0.03
    return 1.0 if kernel.num_rtasks == 1 and kernel.bytes_per_rtask < 1024 else None


@pytest.fixture
def branches() -> Iterator[rammer_mlir.Executable]:
    KERNEL_PROVIDERS.register("sleeping", Sleeping())
    COST_FUNCTIONS.register("slow-rtasks", slow_rtasks)
    found = rammer_mlir.compile(
        BRANCHES, rkernels="sleeping", costs="slow-rtasks", num_veus=2, policy="list", cache=False
    )
    KERNEL_PROVIDERS.unregister("sleeping")
    COST_FUNCTIONS.unregister("slow-rtasks")
    assert isinstance(found, rammer_mlir.Executable)
    yield found
    found.close()


def test_an_external_rtask_runs_beside_ours(branches: rammer_mlir.Executable) -> None:
    """Other vEUs execute rTasks while one vEU executes foreign code."""
    feeds = {
        "x": np.arange(64, dtype=np.float32),
        "a": np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32) / 16,
    }
    outputs = branches.run(feeds)
    np.testing.assert_array_equal(outputs["y"], -feeds["x"])
    np.testing.assert_allclose(
        outputs["c"], feeds["a"] @ feeds["a"] @ feeds["a"], rtol=1e-3, atol=1e-3
    )
    # A busy machine may let a vEU wait until another one is done, so one of several runs suffices.
    assert any(_runs_beside_ours(branches.record(feeds)) for _ in range(20))


def _runs_beside_ours(timeline: Timeline) -> bool:
    """Check the external rTask's span; return whether our rTasks run on other vEUs then."""
    tasks = [span for span in timeline.spans if span.kind == "rtask"]
    (foreign,) = [span for span in tasks if span.module]
    assert foreign.module == "code" and foreign.seconds >= 0.03
    return any(
        span.veu != foreign.veu and span.start < foreign.end and span.end > foreign.start
        for span in tasks
    )


BESIDE = """<ir_version: 10, opset_import: ["": 20]>
g (float[2048,512] x, double[640,640] a) => (float[2048,1024] y, double[640,640] c) {
  m = MatMul(x, w)  y = Relu(m)  c = MatMul(a, a) }"""
"""Two branches: f32, which libraries take, and f64, which they leave to the compiler."""

Overlaps = dict[tuple[tuple[int, str], ...], float]
"""Microseconds in which rTasks of foreign code and rTasks of ours run at the same time.

A key is a pair: vEU and rTask numbers of the foreign rTasks, and vEU and numbers of ours.
"""


def overlaps_of(timeline: Timeline) -> Overlaps:
    """Return, for pairs of rTasks on two vEUs, the µs in which both run.

    One rTask of a pair is external, the other is one of the compiler.
    """
    tasks = [span for span in timeline.spans if span.kind == "rtask"]
    foreign = [span for span in tasks if span.module]
    assert foreign
    return {
        ((one.veu, rtask_range(one)), (other.veu, rtask_range(other))): 1e6 * together
        for one in foreign
        for other in tasks
        if not other.module and one.veu != other.veu
        and (together := min(one.end, other.end) - max(one.start, other.start)) > 1e-6
    }  # fmt: skip


def overlaps_in(path: Path) -> Overlaps:
    """Return the same overlaps as ``overlaps_of``, from a timeline's JSON file."""
    events = json.loads(path.read_text())["traceEvents"]
    tasks = [event for event in events if event.get("cat", "").startswith("rtask")]

    def place(event: dict[str, Any]) -> tuple[int, str]:
        return event["tid"], event["args"]["rTasks"]

    def end(event: dict[str, Any]) -> float:
        return event["ts"] + event["dur"]

    return {
        (place(one), place(other)): together
        for one in tasks
        for other in tasks
        if one["cat"] == "rtask,external" and other["cat"] == "rtask" and one["tid"] != other["tid"]
        and (together := min(end(one), end(other)) - max(one["ts"], other["ts"])) > 1
    }  # fmt: skip


@pytest.mark.parametrize("library", ["onednn", "onnxruntime", "openvino"])
def test_a_librarys_region_runs_beside_ours(library: str, tmp_path: Path) -> None:
    """The rTasks of a library and of the compiler run at the same time.

    This is seen in a timeline and in the timeline's JSON form.
    """
    model = parser.parse_model(BESIDE)
    rng = np.random.default_rng(3)
    w = rng.standard_normal((512, 1024)).astype(np.float32) / 16
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    x, a = rng.standard_normal((2048, 512)).astype(np.float32), rng.standard_normal((640, 640))
    feeds = {"x": x, "a": a}
    exe = rammer_mlir.compile(
        model, offload=library, offload_choice="always", num_veus=2, policy="list", cache=False
    )
    assert isinstance(exe, rammer_mlir.Executable)
    with exe:
        found = exe.run(feeds)
        exact = np.maximum(x.astype(np.float64) @ w, 0)
        np.testing.assert_allclose(found["y"], exact, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found["c"], a @ a, rtol=1e-9, atol=1e-9)
        # A busy machine may let a vEU wait until another one is done, so one of several runs
        # suffices.
        timelines = (exe.record(feeds) for _ in range(20))
        timeline = next((each for each in timelines if overlaps_of(each)), None)
    assert timeline is not None, "no recorded run had both at the same time"
    write_timelines(tmp_path / "trace.json", [timeline])
    assert overlaps_in(tmp_path / "trace.json") == pytest.approx(overlaps_of(timeline), abs=1e-3)


def test_timelines_name_modules(tmp_path: Path) -> None:
    exe = compiled(Rows())
    exe.save(tmp_path / "rows.rammer")
    loaded = rammer_mlir.load(tmp_path / "rows.rammer")
    assert isinstance(loaded, rammer_mlir.Executable)
    for executable in (exe, loaded):
        timeline = executable.record({"x": np.zeros((24, 64), np.float32)})
        assert {span.module for span in timeline.spans if span.kind == "rtask"} == {"code"}
        write_timelines(tmp_path / "trace.json", [timeline])
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        named = [e for e in events if e.get("args", {}).get("module") == "code"]
        assert named and all(e["cat"] == "rtask,external" for e in named)
        write_timelines(tmp_path / "trace.html", [timeline])
        assert "of module 'code'" in (tmp_path / "trace.html").read_text()


def layers() -> onnx.ModelProto:
    """Return a model of a product with weights, a ReLU, and a product with an input."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      g (float[4,8] x, float[8,8] v) => (float[4,8] y) {
        a = MatMul(x, w)  b = Relu(a)  y = MatMul(b, v) }""")
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model


def test_predicted_timelines_name_modules(products: Any) -> None:
    options = check_options(offload="products", offload_choice="always", num_veus=2)
    (timeline,) = Compilation.of_model(layers(), options).predict()
    found = [span.module for span in timeline.spans if span.kind == "rtask"]
    assert "products_0_code" in found and "" in found


def test_modules_of_an_artifact(
    products: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "layers.rammer"
    model = layers()
    given: dict[str, Any] = {"num_veus": 2, "cache": False}
    rammer_mlir.compile(model, offload="products", offload_choice="always", **given).save(path)
    assert run_tool.main([str(path), "--modules"]) == 0
    module, whole = capsys.readouterr().out.splitlines()
    assert module.startswith("module 'products_0_code'  c, 1 rOperators, ")
    assert "foreign code     1 of 2 rOperators, " in whole and "% of operations" in whole
    share = float(whole.rpartition(", ")[2].partition("%")[0])
    assert 30 < share < 70
    rammer_mlir.compile(model, **given).save(path)
    assert run_tool.main([str(path), "--modules"]) == 0
    assert capsys.readouterr().out == "foreign code     0 of 2 rOperators\n"
    assert run_tool.main(["layers.onnx", "--modules"]) == 1
    assert "cannot read 'layers.onnx'" in capsys.readouterr().err


def test_modules_of_several_programs(
    products: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = layers()
    dimension = model.graph.input[0].type.tensor_type.shape.dim[0]
    dimension.Clear()
    dimension.dim_param = "n"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path = tmp_path / "layers.rammer"
    open_model = rammer_mlir.compile(
        model, offload="products", offload_choice="always", num_veus=2, cache=False
    )
    for rows in (2, 4):
        open_model.prepare(n=rows)  # type: ignore[union-attr]
    open_model.save(path)
    assert run_tool.main([str(path), "--modules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[3]] == ["specialization n=2:", "specialization n=4:"]
    assert all(lines[n].startswith("module 'products_0_code'  c, ") for n in (1, 4))
    assert all(lines[n].startswith("foreign code     1 of 2 rOperators, ") for n in (2, 5))
    assert len(lines) == 6


@pytest.mark.parametrize("option", ["--modules", "--info"])
def test_descriptions_need_no_package(
    option: str,
    products: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A program whose package is missing can be described; only its run is refused."""
    generate = products.generate
    need = Requirement("no-such-package", "1.0")

    def with_need(region: Region) -> RegionCode:
        return replace(generate(region), needs=(need,))

    monkeypatch.setattr(products, "generate", with_need)
    path = str(tmp_path / "layers.rammer")
    rammer_mlir.compile(
        layers(), offload="products", offload_choice="always", num_veus=2, cache=False
    ).save(path)
    assert run_tool.main([path, option]) == 0
    wanted = "module 'products_0_code'" if option == "--modules" else "input 'x'        4x8 float32"
    assert wanted in capsys.readouterr().out
    assert run_tool.main([path]) == 1
    assert "expected the package no-such-package 1.0, found none" in capsys.readouterr().err


class Lacking:
    """A code generator whose package is missing."""

    name: ClassVar[str] = "lacking"

    def patterns(self) -> Sequence[Any]:
        return []

    def supports(self, reading: Any) -> bool:
        return False

    def limits(self) -> Any:
        raise NotImplementedError

    def worth(self, facts: Any, device: Any) -> bool:
        return False

    def missing(self) -> str | None:
        return "the package 'lacking'; install it with 'pip install lacking'"


def test_code_generators_are_listed(products: Any, capsys: pytest.CaptureFixture[str]) -> None:
    CODEGENS.register("lacking", Lacking())
    try:
        assert compile_tool.main(["--list-codegens"]) == 0
        lines = capsys.readouterr().out.splitlines()
    finally:
        CODEGENS.unregister("lacking")
    assert lines[0] == "Code generators:"
    assert f"  lacking             {__name__}: the package 'lacking'; install it" in "\n".join(
        lines
    )
    assert "  products            <run_path>" in lines


def test_one_that_cannot_say_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(Lacking):
        name: ClassVar[str] = "failing"

        def missing(self) -> str | None:
            raise OSError("no such device")

    CODEGENS.register("failing", Failing())
    try:
        assert compile_tool.main(["--list-codegens"]) == 0
    finally:
        CODEGENS.unregister("failing")
    assert "expected missing to succeed, found OSError: no such device" in capsys.readouterr().out
    with pytest.raises(OptionError):
        CODEGENS.get("failing")
