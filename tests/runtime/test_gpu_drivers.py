"""Tests that the GPU drivers call CUDA and HIP correctly, without a GPU.

The calls are checked against the installed CUDA and HIP bindings.
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import astuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rammer_mlir.errors import TargetError
from rammer_mlir.runtime.gpu import cuda, hip
from rammer_mlir.runtime.gpu.driver import Argument, Driver, KernelPointers, Launch
from rammer_mlir.runtime.gpu.driver_loading import open_driver
from rammer_mlir.runtime.gpu.vendor_driver import VendorDriver


def bindings(name: str) -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver" if name == "cuda" else "hip")
    except ImportError:
        pytest.skip(f"needs the bindings of {name}: pip install 'rammer-mlir[cuda,rocm]'")


def api_of(driver: type[VendorDriver]) -> Any:
    return bindings("cuda") if driver is cuda.CudaDriver else bindings("hip").hip


DRIVERS = pytest.mark.parametrize("driver", [cuda.CudaDriver, hip.HipDriver])


@DRIVERS
def test_every_name_exists_in_the_bindings(driver: type[VendorDriver]) -> None:
    api, vendor = api_of(driver), driver.vendor
    source = inspect.getsource(sys.modules[driver.__module__])
    functions = {*astuple(vendor.functions), *re.findall(r'_(?:call|do)\(\s*"(\w+)"', source)}
    missing = sorted(function for function in functions if not hasattr(api, function))
    assert not missing
    members = re.findall(r"self\._api\.(\w+)\.(\w+)", source)
    assert members
    for kind, member in (*members, vendor.success):
        assert hasattr(getattr(api, kind), member), f"{kind}.{member}"
    statuses = getattr(api, vendor.success[0])
    for status in (vendor.out_of_memory, *vendor.advice):
        assert hasattr(statuses, status), status


@pytest.mark.parametrize(
    ("kind", "prefix", "names"),
    [
        ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_", (
            "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "COOPERATIVE_LAUNCH",
            "MULTIPROCESSOR_COUNT", "CLOCK_RATE", "MEMORY_CLOCK_RATE",
            "GLOBAL_MEMORY_BUS_WIDTH")),
        ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_", ("NUM_REGS", "SHARED_SIZE_BYTES")),
    ],
)  # fmt: skip
def test_attributes_that_are_spelled_in_parts(
    kind: str, prefix: str, names: tuple[str, ...]
) -> None:
    for name in names:
        assert hasattr(getattr(bindings("cuda"), kind), prefix + name)


def test_attributes_of_hip() -> None:
    api = bindings("hip").hip
    for name in ("NUM_REGS", "SHARED_SIZE_BYTES"):
        assert hasattr(api.hipFunction_attribute, f"HIP_FUNC_ATTRIBUTE_{name}")
    properties = api.hipDeviceProp_t()
    for name in (
        "gcnArchName",
        "name",
        "multiProcessorCount",
        "cooperativeLaunch",
        "clockRate",
        "memoryClockRate",
        "memoryBusWidth",
    ):
        assert hasattr(properties, name)
    stream = api.ihipStream_t.fromObj(4660)
    assert int(stream) == 4660


OTHERS = 3
"""The context or device that is current before a test calls the driver."""

SWITCHES = ("cuCtxPushCurrent", "cuCtxPopCurrent", "hipGetDevice", "hipSetDevice")
"""The functions that read or change the current context or device."""


class Recorded:
    """A fake of CUDA's or HIP's bindings that records all calls, and reports success.

    Attributes:
        answers: results of functions by name, or functions that compute the results from the
            arguments; functions without an answer return 7.
        calls: name and arguments of each call so far, except those of ``SWITCHES``.
        switches: name and arguments of each call so far of ``SWITCHES``.
        contexts: the stack of contexts of CUDA, or HIP's current device as the only element.
        elsewhere: names of the functions that were called while ``OTHERS`` was current.
    """

    def __init__(self, real: Any, success: tuple[str, str], answers: dict[str, Any]) -> None:
        self._real, self.answers = real, answers
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.switches: list[tuple[str, tuple[Any, ...]]] = []
        self.contexts: list[object] = [OTHERS]
        self.elsewhere: set[str] = set()
        setattr(self, success[0], SimpleNamespace(**{success[1]: 0}))

    def __getattr__(self, name: str) -> Any:
        if not re.match(r"(cu|hip)[A-Z]\w*$", name) or inspect.isclass(getattr(self._real, name)):
            return getattr(self._real, name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            if name in SWITCHES:
                return (0, *self._switch(name, arguments))
            self.calls.append((name, arguments))
            if self.contexts[-1] == OTHERS:
                self.elsewhere.add(name)
            answer = self.answers.get(name, 7)
            found = answer(*arguments) if callable(answer) else answer
            return (0, *found) if isinstance(found, tuple) else (0, found)

        return call

    def _switch(self, name: str, arguments: tuple[Any, ...]) -> tuple[object, ...]:
        self.switches.append((name, arguments))
        if name == "hipGetDevice":
            return (self.contexts[-1],)
        if name == "cuCtxPopCurrent":
            return (self.contexts.pop(),)
        if name == "hipSetDevice":
            self.contexts.pop()
        self.contexts.append(arguments[0])
        return ()


def cuda_answers() -> dict[str, Any]:
    attributes = bindings("cuda").CUdevice_attribute
    values = {
        attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: 9,
        attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: 0,
        attributes.CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: 1,
        attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: 132,
        attributes.CU_DEVICE_ATTRIBUTE_CLOCK_RATE: 1_980_000,
        attributes.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: 3_201_000,
        attributes.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: 6144,
    }

    def attribute_of(attribute: Any, _device: object) -> int:
        return values[attribute]

    return {
        "cuInit": (),
        "cuDeviceGetCount": 1,
        "cuDeviceGetName": b"H200\0\0",
        "cuDeviceGetAttribute": attribute_of,
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": 2,
    }


def hip_answers() -> dict[str, Any]:
    properties = SimpleNamespace(
        name="MI210",
        gcnArchName="gfx90a:sramecc+:xnack-",
        multiProcessorCount=104,
        cooperativeLaunch=1,
        clockRate=1_700_000,
        memoryClockRate=1_600_000,
        memoryBusWidth=4096,
    )
    return {
        "hipInit": (),
        "hipGetDeviceCount": 1,
        "hipGetDeviceProperties": properties,
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": 2,
    }


def record(driver: type[VendorDriver], monkeypatch: pytest.MonkeyPatch) -> Recorded:
    answers = cuda_answers() if driver is cuda.CudaDriver else hip_answers()
    fake = Recorded(api_of(driver), driver.vendor.success, answers)
    monkeypatch.setattr(driver, "_bindings", staticmethod(lambda: fake))
    return fake


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    return record(cuda.CudaDriver, monkeypatch)


def test_a_launch_passes_addresses_of_addresses(recorded: Recorded) -> None:
    driver: Driver = cuda.CudaDriver(0)
    assert (driver.chip, driver.name) == ("sm_90", "H200 (device 0)")
    assert driver.resident_blocks("kernel", 256) == 264
    peaks = driver.peaks()
    assert peaks is not None
    assert peaks.operations == pytest.approx(66.9e12, rel=1e-3)  # NVIDIA's data sheet says 67e12
    assert peaks.bandwidth == pytest.approx(4.9e12, rel=1e-2)  # and 4.8e12
    arguments = [Argument(address, 8, "x", "read") for address in (0x1000, 0x2000)]
    pointers = KernelPointers(arguments)
    import ctypes

    for place, expected in zip(pointers.places.tolist(), (0x1000, 0x2000), strict=True):
        assert ctypes.c_uint64.from_address(place).value == expected
    for is_cooperative, name in ((True, "cuLaunchCooperativeKernel"), (False, "cuLaunchKernel")):
        driver.launch("kernel", Launch(3, 256, is_cooperative), arguments, "stream")
        called, given = recorded.calls[-1]
        assert called == name
        assert given[:9] == ("kernel", 3, 1, 1, 256, 1, 1, 0, "stream")
        parameters = inspect.signature(getattr(bindings("cuda"), name))
        assert len(given) == len(parameters.parameters)


@DRIVERS
def test_numbers_of_arguments_are_the_bindings(
    driver: type[VendorDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions of the bindings are called with the number of arguments that they take.

    The driver calls every function of its table, except the query of free memory.
    """
    recorded = record(driver, monkeypatch)
    calls_everything(driver(0))
    real = api_of(driver)
    for name, given in recorded.calls + recorded.switches:
        expected = inspect.signature(getattr(real, name)).parameters
        assert len(given) == len(expected), f"{name}{given}"
    asked_when_full = {driver.vendor.functions.free_memory}
    called = {name for name, _ in recorded.calls}
    assert set(astuple(driver.vendor.functions)) - called == asked_when_full


@DRIVERS
def test_the_current_device_of_the_caller_remains(
    driver: type[VendorDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call runs on the driver's device, and leaves the caller's device current.

    This holds also for calls that fail.
    """
    recorded = record(driver, monkeypatch)
    opened = driver(0)
    assert recorded.contexts == [OTHERS]
    recorded.elsewhere.clear()
    calls_everything(opened)
    assert recorded.contexts == [OTHERS]
    assert not recorded.elsewhere

    status = getattr(getattr(api_of(driver), driver.vendor.success[0]), driver.vendor.out_of_memory)

    def refuse(*_: Any) -> Any:
        return (status,)

    setattr(recorded, driver.vendor.functions.synchronize, refuse)
    with pytest.raises(TargetError, match="failed with"):
        opened.synchronize(0)
    assert recorded.contexts == [OTHERS]


@DRIVERS
def test_successive_calls_share_a_change_of_the_device(
    driver: type[VendorDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = record(driver, monkeypatch)
    opened = driver(0)
    recorded.switches.clear()
    opened.synchronize(0)
    alone = len(recorded.switches)
    with opened.current():
        for _ in range(5):
            opened.order(1, 2)
        assert recorded.contexts[-1] != OTHERS
    assert len(recorded.switches) == 2 * alone
    assert recorded.contexts == [OTHERS]


@DRIVERS
def test_code_and_streams_are_released(
    driver: type[VendorDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code is unloaded after the work of the streams on which its kernel was launched.

    Both are released when nothing refers to them.
    """
    recorded = record(driver, monkeypatch)
    opened, names = driver(0), driver.vendor.functions
    stream = opened.create_stream()
    kernel = opened.load(b"code", "hsaco", "entry")
    opened.launch(kernel, Launch(3, 256, True), [], stream)
    recorded.calls.clear()
    del kernel
    assert recorded.calls == [(names.synchronize, (7,)), (names.unload_module, (7,))]
    del stream
    assert recorded.calls[2:] == [(names.destroy_stream, (7,))]


@DRIVERS
def test_code_without_the_kernel_is_unloaded(
    driver: type[VendorDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = record(driver, monkeypatch)
    opened, names = driver(0), driver.vendor.functions

    def refuse(*_: Any) -> Any:
        raise TargetError("no such kernel")

    recorded.answers[names.get_function] = refuse
    with pytest.raises(TargetError, match="no such kernel"):
        opened.load(b"code", "hsaco", "entry")
    assert recorded.calls[-1] == (names.unload_module, (7,))


def test_default_streams_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers 1 and 2 of default streams are those of CUDA's handles; HIP's default is 0."""
    for driver, handles in ((cuda.CudaDriver, (1, 2)), (hip.HipDriver, (0, 2))):
        record(driver, monkeypatch)
        opened = driver(0)
        assert tuple(opened.stream_handle(opened.stream_of(n)) for n in (1, 2)) == handles


def calls_everything(driver: VendorDriver) -> None:
    array = np.zeros(4, np.float32)
    driver.load(b"code", "hsaco" if driver.chip == "gfx90a" else "ptx", "entry")
    for is_cooperative in (True, False):
        driver.launch("kernel", Launch(3, 256, is_cooperative), [], "stream")
    driver.resident_blocks("kernel", 32)
    driver.needs("kernel", 32)
    driver.free(driver.allocate(64))
    driver.clear(1, 2, 0)
    driver.upload(1, array, 0)
    driver.download(array, 1, 0)
    driver.order(1, 2)
    driver.synchronize(driver.create_stream())
    driver.begin_capture(0)
    graph = driver.end_capture(0)
    driver.replay(graph, 0)
    driver.forget(graph)
    driver.seconds_between(driver.record_event(0), driver.record_event(0))


def test_hip_waits_for_what_cuda_has_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upload, the HIP driver synchronizes, and the CUDA driver does not.

    HIP may read pageable memory after the call has returned; CUDA has copied it by then.
    """
    array = np.zeros(4, np.float32)
    last: list[str] = []
    for driver in (cuda.CudaDriver, hip.HipDriver):
        recorded = record(driver, monkeypatch)
        driver(0).upload(1, array, 0)
        last.append(recorded.calls[-1][0])
    assert last == ["cuMemcpyHtoDAsync", "hipStreamSynchronize"]


def test_an_amd_device(monkeypatch: pytest.MonkeyPatch) -> None:
    record(hip.HipDriver, monkeypatch)
    driver: Driver = hip.HipDriver(0)
    assert (driver.chip, driver.name) == ("gfx90a", "MI210 (device 0)")
    assert driver.resident_blocks("kernel", 256) == 208
    peaks = driver.peaks()
    assert peaks is not None
    assert peaks.operations == pytest.approx(22.6e12, rel=1e-2)  # AMD's data sheet says 22.6e12
    assert peaks.bandwidth == pytest.approx(1.6e12, rel=3e-2)  # and 1.6e12
    with pytest.raises(TargetError, match="expected a code object"):
        driver.load(b"code", "ptx", "entry")


def test_a_driver_that_refuses(recorded: Recorded) -> None:
    driver = cuda.CudaDriver(0)
    status = bindings("cuda").CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE

    def refuse(*_: Any) -> Any:
        return (status,)

    recorded.cuLaunchCooperativeKernel = refuse  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match=r"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: compile for"):
        driver.launch("kernel", Launch(3, 256, True), [], "stream")
    full = bindings("cuda").CUresult.CUDA_ERROR_OUT_OF_MEMORY
    recorded.cuMemAlloc = lambda *_: (full, 0)  # type: ignore[attr-defined]
    recorded.cuMemGetInfo = lambda *_: (0, 10, 20)  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="expected 1,000 bytes of device memory, found 10 free"):
        driver.allocate(1000)


def test_a_device_that_is_not_there(recorded: Recorded) -> None:
    with pytest.raises(TargetError, match="device 4: expected a number below 1"):
        cuda.CudaDriver(4)


@pytest.mark.parametrize(
    ("target", "package", "extra"),
    [("nvvm:sm_90", "cuda.bindings", "cuda"), ("rocdl:gfx90a", "hip", "rocm")],
)
def test_missing_bindings_say_what_to_install(
    target: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "cuda.bindings.driver" if extra == "cuda" else package
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TargetError, match=rf"pip install rammer-mlir\[{extra}\]"):
        open_driver(target)


def test_loading_an_artifact_needs_no_bindings() -> None:
    """The loader of artifacts can be imported without the bindings of a GPU."""
    code = (
        "import sys; sys.modules['cuda'] = sys.modules['hip'] = None; "
        "from rammer_mlir.runtime import loader"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_time_between_events(recorded: Recorded) -> None:
    """Events for timing are created with timing enabled, and destroyed after they are read."""
    recorded.answers["cuEventElapsedTime"] = 1.5  # milliseconds
    driver = cuda.CudaDriver(0)
    begin, end = (driver.record_event("stream") for _ in range(2))
    assert driver.seconds_between(begin, end) == pytest.approx(1.5e-3)
    flags = bindings("cuda").CUevent_flags
    created = [given for name, given in recorded.calls if name == "cuEventCreate"]
    assert created == [(int(flags.CU_EVENT_DEFAULT),)] * 2
    driver.order("before", "after")
    assert recorded.calls[-4] == ("cuEventCreate", (int(flags.CU_EVENT_DISABLE_TIMING),))
    destroyed = [given for name, given in recorded.calls if name == "cuEventDestroy"]
    assert len(destroyed) == 3
