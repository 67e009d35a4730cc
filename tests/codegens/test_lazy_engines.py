"""Loading an artifact opens no engine: the first run or `prepare` opens the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build

LIBRARIES = {
    "onednn": "libdnnl", "openvino": "libopenvino", "onnxruntime": "/onnxruntime/capi/"
}  # fmt: skip

_SCRIPT = """
import sys
import rammer_mlir

def is_open():
    with open("/proc/self/maps") as maps:
        return sys.argv[2] in maps.read()

exe = rammer_mlir.load(sys.argv[1])
loaded = is_open()
exe.prepare()
print(loaded, is_open())
"""


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_engine_is_opened_behind_loading(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mlp.rammer"
    model = build("mlp", scale="small")
    with rammer_mlir.compile(
        model, offload=name, offload_choice="always", num_veus=1, cache=False
    ) as exe:
        exe.save(path)
    found = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(path), LIBRARIES[name]],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == ["False", "True"]
