"""Tests that GPU programs are launched correctly, on an emulated GPU."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.emulation.device.driver import EmulatedDriver
from rammer_mlir.emulation.device.executable import NO_CODE, EmulatedExecutable
from rammer_mlir.errors import OptionError, TargetError
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.gpu_table import WAITS_AT, PlacedBarrier, place_records
from rammer_mlir.programs.residency import BlockNeeds, Multiprocessors
from rammer_mlir.runtime.gpu.arrays import DeviceArray
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from tests.runtime.gpu_model import MODEL, agrees, compiled, feeds_of, with_driver


@pytest.fixture(scope="module")
def executable() -> EmulatedExecutable:
    return compiled()


def test_weights_are_uploaded_once(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable)
    assert agrees(again.run(feeds_of(1)), 1)
    first = driver.uploaded_bytes
    constants = again.image.constants.nbytes
    assert first > constants > 0
    for seed in (2, 3):
        assert agrees(again.run(feeds_of(seed)), seed)
    inputs = sum(spec.num_bytes for spec in again.signature.inputs)
    assert driver.uploaded_bytes == first + 2 * inputs
    assert driver.launches == 3


def test_outputs_go_where_the_caller_says(executable: EmulatedExecutable) -> None:
    feeds = feeds_of(4)
    (spec,) = executable.signature.outputs
    out = {spec.name: np.empty(spec.shape, spec.dtype)}
    found = executable.run(feeds, out)
    assert found[spec.name] is out[spec.name]
    assert agrees(out, 4)


def test_one_launch_per_operator_gives_the_same() -> None:
    """A launch for each operator gives bitwise the results of a launch of the whole program."""
    for policy in ("sequential", "wavefront"):
        split = compiled(per_operator=True, policy=policy, check=True)
        found = split.run(feeds_of(5))
        assert agrees(found, 5)
        assert agrees(split.run(feeds_of(6)), 6)
        driver = split.program.driver
        assert isinstance(driver, EmulatedDriver)
        launches = len(split.image.tables)
        assert launches > 1 and driver.launches == 2 * launches
        whole = compiled(policy=policy).run(feeds_of(5))
        for name, array in whole.items():
            np.testing.assert_array_equal(found[name], array)


def test_launches_per_operator_have_memory_of_their_own() -> None:
    """A launch for each operator gives right results, since memory is planned for these launches.

    Operators run in another order than in the schedule, so that other intermediates are live
    together.
    """
    model = build("nas_cell", scale="small")
    feeds = random_feeds(model, 5)
    for policy in ("wavefront", "ios"):
        split = rammer_mlir.compile(
            model, target="nvvm:sm_90", num_veus=3, policy=policy, emulate=True, check=True,
            per_operator=True,
        )  # fmt: skip
        assert compare(OnnxRuntime(model).run(feeds), split.run(feeds)).ok


def test_a_captured_run_repeats(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable)
    (spec,) = again.signature.inputs
    tensor = DeviceArray(driver, spec, driver.create_stream())
    captured = again.capture({spec.name: tensor})
    assert driver.launches == 0
    for seed in (11, 12, 13):
        driver.upload(tensor.address, feeds_of(seed)[spec.name], tensor.stream)
        outputs = captured.replay()
        captured.synchronize()
        assert agrees({name: array.numpy() for name, array in outputs.items()}, seed)
    assert driver.launches == 3
    assert agrees(again.run(feeds_of(14)), 14)  # counters go on from the graph's runs
    assert agrees({n: a.numpy() for n, a in captured.replay().items()}, 13)


class Ordered(EmulatedDriver):
    """A fake driver that executes no kernel, and records launches, waits and orders of streams.

    The records are in ``notes``: tuples such as ("run", stream) or ("order", before, after).
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.notes: list[tuple[object, ...]] = []

    def order(self, before: object, after: object) -> None:
        self.notes.append(("order", before, after))

    def launch(self, kernel: Any, grid: Any, arguments: Any, stream: object) -> None:
        self.notes.append(("run", stream))

    def synchronize(self, stream: object) -> None:
        self.notes.append(("wait", stream))

    def begin_capture(self, stream: object) -> None: ...

    def end_capture(self, stream: object) -> object:
        self.notes.clear()
        return []

    def replay(self, graph: object, stream: object) -> None:
        self.notes.append(("run", stream))

    def forget(self, graph: object) -> None: ...


def test_runs_on_several_streams_follow_each_other(executable: EmulatedExecutable) -> None:
    """A run on any stream waits for the previous run, whether launched or replayed.

    All runs share the step counters.
    """
    own = executable.program.driver
    assert isinstance(own, EmulatedDriver)
    driver = Ordered("sm_90", own.kernels)
    again = GpuExecutable(executable.image, NO_CODE, lambda: driver)
    inputs = again.to_device(feeds_of(1))
    captured = again.capture(inputs)
    home = again.program.stream
    for stream in (70, 71, None, 72):
        again.run_on_device(inputs, stream=stream)
        captured.replay()
    last = home
    for note in driver.notes:
        if note[0] == "order" and note[1] == last:
            last = note[2]
        elif note[0] == "run":
            assert note[1] == last, driver.notes
    assert sum(note[0] == "run" for note in driver.notes) == 8
    again.run_on_device(inputs, stream=73)
    again.synchronize()
    # The stream belongs to the caller, who may destroy it: the executable's own one follows it.
    assert ("order", 73, home) in driver.notes
    assert driver.notes[-1] == ("wait", home)


def test_a_captured_run_ends_with_its_executable(executable: EmulatedExecutable) -> None:
    again, _ = with_driver(executable)
    captured = again.capture(again.to_device(feeds_of(1)))
    captured.replay()
    captured.synchronize()
    again.close()
    for call in (captured.replay, captured.synchronize):
        with pytest.raises(TargetError, match="the executable is closed"):
            call()


def test_too_many_blocks_are_refused_before_a_launch(executable: EmulatedExecutable) -> None:
    small = Multiprocessors(2, 256, 65536, 48 << 10)
    again, driver = with_driver(executable, resources=small)
    with pytest.raises(TargetError, match=r"at most 2 vEUs, .*found 3; compile for fewer vEUs"):
        again.run(feeds_of(1))
    assert driver.launches == 0


def test_out_of_device_memory(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable, memory_bytes=1000)
    with pytest.raises(TargetError, match=r"emulated sm_90: expected [\d,]+ bytes of device mem"):
        again.run(feeds_of(1))
    assert driver.launches == 0
    del again
    gc.collect()
    assert driver.used_bytes == 0


@pytest.mark.parametrize(
    ("chip", "kind", "runs"),
    [
        ("sm_90", "cubin", True), ("sm_80", "cubin", False), ("sm_100", "cubin", False),
        ("sm_100", "ptx", True), ("sm_80", "ptx", False), ("gfx90a", "hsaco", False),
    ],
)  # fmt: skip
def test_the_chip_has_to_fit(
    executable: EmulatedExecutable, chip: str, kind: Any, runs: bool
) -> None:
    again, _ = with_driver(executable, lambda image: replace(image, code_kind=kind), chip)
    if runs:
        assert agrees(again.run(feeds_of(2)), 2)
        return
    with pytest.raises(TargetError, match=f"expected code for {chip}, found an artifact for sm_90"):
        again.run(feeds_of(2))


@pytest.mark.parametrize(("target", "package"), [("nvvm:sm_90", "NVIDIA"), ("rocdl:gfx90a", "AMD")])
def test_no_driver(target: str, package: str) -> None:
    """A program compiles for a GPU without a driver, but running it is then refused in one line.

    With a driver, the results are right.
    """
    found = rammer_mlir.compile(MODEL, target=target, num_veus=2)
    try:
        outputs = found.run(feeds_of(3))
    except TargetError as error:
        assert f"running on an {package} GPU: expected" in str(error)
        assert "\n" not in str(error)
    else:  # there is one
        assert agrees(outputs, 3)


def test_closing_gives_the_memory_back(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable)
    with again:
        again.run(feeds_of(1))
        assert driver.used_bytes > 0
    gc.collect()
    assert driver.used_bytes == 0
    with pytest.raises(TargetError, match="the executable is closed"):
        again.run(feeds_of(1))


class Resource:
    """A kernel or stream of the fake driver ``Tracked``."""


class Tracked(EmulatedDriver):
    """A fake driver that executes no kernel, and refers weakly to the kernels and streams it made.

    The references are in ``made``: the kernel and the stream of one program. For each wait,
    ``waits`` has whether it was for this stream, and whether the kernel still existed.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.made: list[weakref.ref[Resource]] = []
        self.waits: list[tuple[bool, bool]] = []

    def _make(self) -> Resource:
        made = Resource()
        self.made.append(weakref.ref(made))
        return made

    def load(self, code: bytes, kind: Any, entry: str) -> object:
        return self._make()

    def create_stream(self) -> object:
        return self._make()

    def resident_blocks(self, kernel: object, threads: int) -> int:
        return 1 << 30

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        return BlockNeeds(threads, 1, 0)

    def launch(self, kernel: Any, grid: Any, arguments: Any, stream: object) -> None: ...

    def replay(self, graph: object, stream: object) -> None: ...

    def synchronize(self, stream: object) -> None:
        kernel, own = self.made
        self.waits.append((stream is own(), kernel() is not None))


@pytest.mark.parametrize("is_closed", [True, False])
def test_code_and_streams_end_with_their_executable(
    executable: EmulatedExecutable, is_closed: bool
) -> None:
    """Closed and collected executables reference neither their kernel nor their stream any more.

    The driver then unloads the code and destroys the stream. Arrays keep the stream that writes
    them.
    """
    own = executable.program.driver
    assert isinstance(own, EmulatedDriver)
    driver = Tracked("sm_90", own.kernels)
    again = GpuExecutable(executable.image, NO_CODE, lambda: driver)
    captured = again.capture(feeds_of(1))
    outputs = again.run_on_device(feeds_of(1))
    kernel, stream = driver.made
    if is_closed:
        again.close()
        assert kernel() is None  # although the captured run still refers to the program
    del again, captured
    gc.collect()
    assert kernel() is None and stream() is not None
    outputs.clear()
    assert stream() is None


def test_a_collected_executable_waits_for_its_runs(executable: EmulatedExecutable) -> None:
    """Code is released after all runs, also those on streams of other packages."""
    own = executable.program.driver
    assert isinstance(own, EmulatedDriver)
    driver = Tracked("sm_90", own.kernels)
    again = GpuExecutable(executable.image, NO_CODE, lambda: driver)
    again.run_on_device(again.to_device(feeds_of(1)), stream=70)
    driver.waits.clear()
    del again
    gc.collect()
    assert driver.waits == [(True, True)]
    assert driver.made[0]() is None


@pytest.fixture(scope="module")
def watched() -> EmulatedExecutable:
    return compiled(watchdog=50, num_veus=4)


def test_a_watchdog_lets_good_runs_be(watched: EmulatedExecutable) -> None:
    for seed in (1, 2, 3):
        assert agrees(watched.run(feeds_of(seed)), seed)


def awaits_one_step_more(image: GpuImage) -> tuple[GpuImage, int, int]:
    """Return a program whose last barrier never ends, and the waiting and the awaited vEU.

    The barrier waits for a step that the awaited vEU does not have.
    """
    tables = image.tables.copy()
    table = tables[0]
    placed = place_records(image.program.launches[0])
    for veu in reversed(range(image.num_veus)):
        barriers = [found for found in placed[veu] if isinstance(found, PlacedBarrier)]
        if barriers:
            other = barriers[-1].position + WAITS_AT
            table[other + 1] += 1000
            return replace(image, tables=tables), veu, int(table[other])
    raise AssertionError("no barrier")


def test_a_watchdog_tells_who_waits_for_whom(watched: EmulatedExecutable) -> None:
    assert agrees(watched.run(feeds_of(1)), 1)
    changed, veu, other = awaits_one_step_more(watched.image)
    again, _ = with_driver(watched, lambda _: changed)
    message = rf"watchdog: vEU {veu}, before .*waited in vain for step \d+ of vEU {other} "
    for _ in range(2):  # it can be started again, and says so again
        with pytest.raises(TargetError, match=message):
            again.run(feeds_of(1))


def test_options_that_do_not_fit() -> None:
    with pytest.raises(OptionError, match="watchdog: expected a number of polls, at least 0"):
        rammer_mlir.compile(MODEL, target="nvvm", watchdog=-1)
    with pytest.raises(OptionError, match="watchdog: expected a GPU as target, found 'cpu'"):
        rammer_mlir.compile(MODEL, target="cpu", watchdog=5)  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="watchdog: expected one launch of the whole program"):
        rammer_mlir.compile(MODEL, target="nvvm", watchdog=5, per_operator=True)


def test_an_artifact_holds_all_that_a_launch_needs(
    tmp_path: Any, executable: EmulatedExecutable
) -> None:
    path = tmp_path / "cell.rammer"
    made = rammer_mlir.compile(MODEL, target="nvvm:sm_90", num_veus=3)
    made.save(path)
    loaded = rammer_mlir.load(path)
    assert isinstance(loaded, GpuExecutable) and isinstance(made, GpuExecutable)
    assert loaded.signature == made.signature and loaded.target == "nvvm:sm_90"
    assert loaded.summary == made.summary
    for field in ("entry", "num_veus", "block_threads", "arguments", "argument_bytes", "program",
                  "shared_bytes", "code_kind", "resources"):  # fmt: skip
        assert getattr(loaded.image, field) == getattr(made.image, field), field
    for part, expected in zip(
        loaded.image.constants.parts, made.image.constants.parts, strict=True
    ):
        np.testing.assert_array_equal(part, expected)
    np.testing.assert_array_equal(loaded.image.tables, made.image.tables)
    driver = executable.program.driver
    assert isinstance(driver, EmulatedDriver)
    own = EmulatedDriver("sm_90", {loaded.code: driver.kernels[NO_CODE]})
    runs = GpuExecutable(loaded.image, loaded.code, lambda: own)
    assert agrees(runs.run(feeds_of(15)), 15)


def test_emulated_code_is_not_saved(executable: EmulatedExecutable, tmp_path: Any) -> None:
    with pytest.raises(OptionError, match="found emulated code; compile without emulation"):
        executable.save(tmp_path / "x.rammer")
    with pytest.raises(OptionError, match="timeline: expected the target cpu"):
        executable.timeline(tmp_path / "x.json", feeds_of(1))
    assert not list(tmp_path.iterdir())


def test_a_model_without_weights_or_intermediates() -> None:
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Exp", ["x"], ["y"])], "one",
        [info("x", onnx.TensorProto.FLOAT, [5])], [info("y", onnx.TensorProto.FLOAT, [5])],
    )  # fmt: skip
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
    )
    found = rammer_mlir.compile(model, target="rocdl:gfx90a", num_veus=2, emulate=True)
    x = np.random.default_rng(3).standard_normal(5).astype(np.float32)
    assert np.allclose(np.asarray(found.run({"x": x})["y"], np.float64), np.exp(x), rtol=1e-5)
