"""Tests that external rKernels of grain ``device`` run alone, with right results.

The proof of an artifact covers this rule, and timelines show it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.cli import run as run_tool
from rammer_mlir.codegens import EntryHost, OpenEntry, register_codegen, register_engine
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.errors import OptionError, PassError, ScheduleError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.timeline.spans import Span
from tests.checker.files import cpu_table, read_members, write_members
from tests.cli.tools import Tool
from tests.external.states import PackedProducts, Products, check, two_products

POLICIES = ["wavefront", "sequential", "list", "ios", "auto"]

SLEEPING = """
  struct { int64_t seconds, nanoseconds; } span = {0, 40000000};
  int nanosleep(const void *, void *);
  nanosleep(&span, 0);
"""


@pytest.fixture
def packed() -> Iterator[PackedProducts]:
    """Return a registered code generator of stateful C functions of grain ``device``."""
    codegen = PackedProducts(code={"grain": "device", "num_rtasks": 1, "reads": {}, "writes": {}})
    codegen.filled = {"rows_of": "for (row = 0; row < ROWS; row++)"}
    register_codegen(codegen)
    yield codegen
    CODEGENS.unregister(codegen.name)


def branches() -> onnx.ModelProto:
    """Return a model in which two products run before, after and beside rOperators of the host."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
      g (float[6,16] x, float[4,96,96] z) => (float[6,16] y, float[4,96,96] u) {
        a = MatMul(x, v)  s = MatMul(z, z)  b = Tanh(a)  c = MatMul(b, w)  y = Softmax(c)
        m = ReduceMax<keepdims=0>(c)  t = Add(z, m)  u = MatMul(t, s) }""")
    rng = np.random.default_rng(3)
    for name in ("v", "w"):
        values = rng.standard_normal((16, 16)).astype(np.float32) / 4
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def offloaded(model: onnx.ModelProto, offload: str, **options: Any) -> Executable:
    options = {"offload_choice": "always", "num_veus": 2, "cache": False} | options
    found = rammer_mlir.compile(model, offload=offload, **options)
    assert isinstance(found, Executable)
    return found


def exclusive_spans(exe: Executable, feeds: dict[str, Any]) -> list[Span]:
    """Run once; check that no rTask runs beside an exclusive one; return the exclusive spans."""
    timeline = exe.record(feeds)
    rtasks = [span for span in timeline.spans if span.kind == "rtask"]
    alone = [span for span in rtasks if span.is_exclusive]
    for span in alone:
        others = [other for other in rtasks if other is not span]
        assert all(o.end <= span.start or o.start >= span.end for o in others)
    return alone


@pytest.mark.parametrize("num_veus", [1, 2, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_numbers(policy: str, num_veus: int, packed: PackedProducts, tmp_path: Path) -> None:
    model = branches()
    feeds = random_feeds(model, 3)
    with rammer_mlir.compile(model, num_veus=num_veus, cache=False) as plain:
        wanted = plain.run(feeds)
    with offloaded(model, "packed", num_veus=num_veus, policy=policy) as exe:
        assert len(exe.image.proof.exclusive) == 2
        found = exe.run(feeds)
        for _ in range(50):
            exe.run(feeds)
        assert len(exclusive_spans(exe, feeds)) == 2
        exe.save(tmp_path / "model.rammer")
    verify(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        assert isinstance(loaded, Executable)
        assert len(exclusive_spans(loaded, feeds)) == 2
        again = loaded.run(feeds)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(again[name], found[name])


@pytest.mark.parametrize("num_veus", [1, 2, 3])
def test_those_that_wait_sleep(num_veus: int, packed: PackedProducts) -> None:
    """An exclusive rTask sleeps; meanwhile the vEUs that wait for it use no processor time."""
    packed.filled = {**packed.filled, "before": SLEEPING}
    with offloaded(two_products(), "packed", num_veus=num_veus) as exe:
        check(exe)
        feeds = {"x": np.ones((6, 16), np.float32)}
        begin, used = time.perf_counter(), time.process_time()
        for _ in range(5):
            exe.run(feeds)
        spent, used = time.perf_counter() - begin, time.process_time() - used
        assert spent > 0.4
        assert used < 0.1 * spent


def test_two_programs_side_by_side(packed: PackedProducts) -> None:
    packed.filled = {**packed.filled, "before": SLEEPING.replace("40000000", "1000000")}
    with offloaded(two_products(), "packed", num_veus=3) as one:
        with offloaded(two_products(), "packed", num_veus=3) as other:
            threads = [threading.Thread(target=check, args=(e,)) for e in (one, other) * 4]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert not any(thread.is_alive() for thread in threads)


def test_timelines(packed: PackedProducts, tmp_path: Path) -> None:
    model = branches()
    feeds = random_feeds(model, 3)
    with offloaded(model, "packed") as exe:
        exe.timeline(tmp_path / "run.json", feeds)
        exe.timeline(tmp_path / "run.html", feeds)
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    grains = [event["args"].get("grain") for event in events if "external" in event.get("cat", "")]
    assert grains == ["device", "device"]
    assert "on the whole device" in (tmp_path / "run.html").read_text()


@pytest.mark.parametrize("veu", [0, 1])
def test_the_checker_refuses_an_rtask_beside_one(
    veu: int, packed: PackedProducts, tmp_path: Path
) -> None:
    """An artifact without a vEU's barriers breaks rule 7: exclusive rTasks run alone."""
    path = tmp_path / "model.rammer"
    with offloaded(branches(), "packed", policy="list") as exe:
        exe.save(path)
    members = read_members(path)
    program = json.loads(members["program.json"])
    records = program["launches"][0][veu]
    program["launches"][0][veu] = [each for each in records if not isinstance(each[0], list)]
    assert program["launches"][0][veu] != records
    changed = {"program.json": json.dumps(program).encode(), **cpu_table(program)}
    write_members(path, members | changed)
    with pytest.raises(ScheduleError, match=r"rule 7 \(alone\): .* may run beside .*, which uses"):
        verify(path)
    write_members(path, members)
    verify(path)


def test_the_arena_of_exclusive_rtasks_is_bounded(packed: PackedProducts) -> None:
    """The arena of a program with exclusive rTasks is at most as large as all intermediates."""
    with offloaded(branches(), "packed", policy="list") as exe:
        stats = exe.stats
        assert stats["live_bytes"] <= stats["arena_bytes"] <= stats["intermediate_bytes"]


def test_measured_costs(packed: PackedProducts, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RAMMER_PROFILES", str(tmp_path / "profiles.sqlite"))
    with offloaded(two_products(), "packed", costs="measured") as exe:
        check(exe)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ({"num_rtasks": 6}, "expected one rTask of the grain device, found 6"),
        ({"grain": "machine"}, "expected a grain of region, device, found 'machine'"),
    ],
)
def test_wrong_code(packed: PackedProducts, code: dict[str, Any], message: str) -> None:
    packed.code = {**packed.code, **code}
    with pytest.raises(
        PassError, match=f"code generator 'packed', region '.*': {message}; mend it"
    ):
        offloaded(two_products(), "packed")


class Counted(Products):
    """An engine that records the number of vEUs that each entry is told."""

    def __init__(self) -> None:
        super().__init__()
        self.num_veus: list[int] = []

    def open(self, host: EntryHost) -> OpenEntry:
        self.num_veus.append(host.num_veus)
        return super().open(host)


def test_an_engine_knows_how_many_veus_there_are(packed: PackedProducts) -> None:
    """An engine is told the number of all vEUs, also if only one vEU has rTasks."""
    engine = Counted()
    register_engine(engine)
    try:
        packed.form, packed.code = "graph", {"engine": engine.name}
        with offloaded(two_products(), "packed", num_veus=3) as exe:
            exe.prepare()
        assert engine.num_veus == [3, 3]
    finally:
        ENGINES.unregister(engine.name)


LIBRARIES = ("onnxruntime", "openvino")


def threads_of_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_with_all_threads(name: str, tmp_path: Path) -> None:
    """With the option `threads=all`, a library has at least one thread for each vEU."""
    model = build("transformer_encoder", scale="small")
    feeds = random_feeds(model, 2)
    wanted = rammer_mlir.compile(model, cache=False).run(feeds)
    for num_veus, policy in ((1, "list"), (2, "wavefront"), (3, "ios")):
        options = {"num_veus": num_veus, "policy": policy}
        with offloaded(model, name, module_options={f"{name}.threads": "all"}, **options) as exe:
            assert exe.image.proof.exclusive
            before = threads_of_process()
            exe.prepare()
            exe.run(feeds)
            pool = exe.image.launch.busy_veus - 1
            assert threads_of_process() - before - pool >= num_veus - 1
            exe.save(tmp_path / "model.rammer")
            assert exclusive_spans(exe, feeds)
        verify(tmp_path / "model.rammer")
        with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
            found: dict[str, Any] = loaded.run(feeds)
        for key, value in wanted.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-5)


def test_the_tools_name_the_grain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = build("mlp", scale="small")
    options = {"onnxruntime.threads": "all"}
    with offloaded(model, "onnxruntime", module_options=options) as exe:
        exe.save(tmp_path / "mlp.rammer")
    running = Tool(run_tool.main, capsys)
    assert ", grain device, threads=all\n" in running.succeed(tmp_path / "mlp.rammer", "--modules")
    message = "an integer of at least 1 and at most 1024, or all, found 'both'"
    with pytest.raises(OptionError, match=message):
        offloaded(model, "onnxruntime", module_options={"onnxruntime.threads": "both"})


def test_by_cost() -> None:
    """With `offload_choice="cost"`, a region of grain ``device`` gives the results of the host."""
    model = build("mlp", scale="small")
    feeds = random_feeds(model, 0)
    wanted = rammer_mlir.compile(model, cache=False).run(feeds)
    options = {"onnxruntime.threads": "all"}
    with offloaded(model, "onnxruntime", offload_choice="cost", module_options=options) as exe:
        for key, value in exe.run(feeds).items():
            np.testing.assert_allclose(value, wanted[key], rtol=1e-4, atol=1e-5)
