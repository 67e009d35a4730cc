"""The drivers' calls against the installed bindings, as far as that goes without a GPU."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from rammer_mlir.errors import TargetError
from rammer_mlir.runtime.gpu import cuda, hip
from rammer_mlir.runtime.gpu.driver import Argument, Driver, KernelPointers, Launch
from rammer_mlir.runtime.gpu.opening import open_driver


def bindings(name: str) -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver" if name == "cuda" else "hip")
    except ImportError:
        pytest.skip(f"needs the bindings of {name}: pip install 'rammer-mlir[cuda,rocm]'")


@pytest.mark.parametrize("module", [cuda, hip])
def test_every_function_exists_in_the_bindings(module: ModuleType) -> None:
    name = module.__name__.rpartition(".")[2]
    found = bindings(name)
    api = found if name == "cuda" else found.hip
    source = inspect.getsource(module)
    functions = set(re.findall(r'_do\(\s*"(\w+)"', source))
    assert len(functions) > 20
    missing = sorted(function for function in functions if not hasattr(api, function))
    assert not missing
    for kind, member in re.findall(r"self\._(?:cuda|hip)\.(\w+)\.(\w+)", source):
        assert hasattr(getattr(api, kind), member), f"{kind}.{member}"


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


class Recorded:
    """Bindings that record calls and answer from a table: success and a number otherwise."""

    class CUresult:
        CUDA_SUCCESS = 0

    def __init__(self, real: Any, answers: dict[str, Any]) -> None:
        self._real, self._answers = real, answers
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu") or not name[2].isupper():
            return getattr(self._real, name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            answer = self._answers.get(name, 7)
            found = answer(*arguments) if callable(answer) else answer
            return (0, *found) if isinstance(found, tuple) else (0, found)

        return call


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    real = bindings("cuda")
    attributes = real.CUdevice_attribute
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

    answers: dict[str, Any] = {
        "cuInit": (),
        "cuDeviceGetCount": 1,
        "cuDeviceGetName": b"H200\0\0",
        "cuDeviceGetAttribute": attribute_of,
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": 2,
        "cuEventElapsedTime": 1.5,
    }
    fake = Recorded(real, answers)
    monkeypatch.setattr(cuda, "_bindings", lambda: fake)
    return fake


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
    assert driver.seconds_between(1, 2) == 1.5e-3


def test_numbers_of_arguments_are_the_bindings(recorded: Recorded) -> None:
    """Every call has as many arguments as the function takes."""
    import numpy as np

    driver = cuda.CudaDriver(0)
    array = np.zeros(4, np.float32)
    driver.load(b"code", "ptx", "entry")
    driver.needs("kernel", 32)
    driver.free(driver.allocate(64))
    driver.clear(1, 2, 0)
    driver.upload(1, array, 0)
    driver.download(array, 1, 0)
    driver.order(1, 2)
    driver.synchronize(driver.create_stream())
    driver.begin_capture(0)
    driver.replay(driver.end_capture(0), 0)
    driver.record_event(0)
    real = bindings("cuda")
    for name, given in recorded.calls:
        expected = inspect.signature(getattr(real, name)).parameters
        assert len(given) == len(expected), f"{name}{given}"


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
    """What runs on the CPU never imports a GPU's bindings."""
    code = (
        "import sys; sys.modules['cuda'] = sys.modules['hip'] = None; "
        "from rammer_mlir.runtime import loader"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
