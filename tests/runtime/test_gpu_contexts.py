"""Tests that CUDA's bindings, on a stand-in for the driver, keep the contexts of other packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rammer_mlir.lowering.external.c_compiler import find_c_compiler

SOURCE = Path(__file__).parents[1] / "gpu_kit" / "standin" / "libcuda.c"

SCRIPT = """
import threading
from cuda.bindings import driver as api
from rammer_mlir.runtime.gpu.cuda import CudaDriver
from rammer_mlir.runtime.gpu.driver import Launch
from rammer_mlir.runtime.gpu.memory import DeviceMemory

api.cuInit(0)
api.cuCtxSetCurrent(api.CUcontext(0x99))

def work():
    driver = CudaDriver(0)
    stream, kernel = driver.create_stream(), driver.load(bytes(100), "cubin", "kernel")
    memory = DeviceMemory(driver, 100)
    driver.launch(kernel, Launch(1, 32, True), [], stream)
    for number in (1, 2):
        driver.order(driver.stream_of(number), stream)
    driver.synchronize(stream)
    print(int(api.cuCtxGetCurrent()[1]))

work()
print(int(api.cuCtxGetCurrent()[1]))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_contexts_of_other_packages_remain(tmp_path: Path) -> None:
    """A context that another package made current is current again after each call.

    In a thread without a context, there is none afterwards. The stand-in refuses calls in a wrong
    context, and logs which resources are released.
    """
    pytest.importorskip("cuda.bindings.driver")
    log = tmp_path / "calls.txt"
    options = ["-shared", "-fPIC", str(SOURCE), "-o", str(tmp_path / "libcuda.so.1"), "-ldl"]
    subprocess.run([*find_c_compiler(), *options], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "STANDIN_LOG": str(log)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == ([str(0x99), str(0x99), "0"], "")
    calls = log.read_text().splitlines()
    for call in ("cuModuleUnload", "cuStreamDestroy", "cuEventRecord 0x1", "cuEventRecord 0x2"):
        assert calls.count(call) == 2, call
