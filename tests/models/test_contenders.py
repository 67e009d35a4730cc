"""Tests that the other compilers of the benchmarks give ONNX Runtime's outputs.

If the package of a compiler is missing, an error names it.
"""

import time
from functools import partial
from pathlib import Path

import pytest

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contender_process import Lane, outputs, turn
from rammer_mlir.benchmarks.contenders.protocol import required
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.errors import TargetError

NEEDS = {"openvino": "openvino", "iree": "iree.runtime", "pytorch": "onnx2torch"}
CASES = [
    ("openvino", "multi_io"),
    ("openvino", "lstm_bidirectional"),
    ("iree", "multi_io"),
    pytest.param("iree", "light_squeezenet", marks=pytest.mark.slow),
    ("pytorch", "mlp"),
    ("pytorch", "mobilenet_v2"),
]


def open_lane(name: str, model: str, threads: int, folder: Path) -> Lane:
    content = build(model, scale="small")
    path = folder / "model.onnx"
    path.write_bytes(content.SerializeToString())
    feeds = random_feeds(content, seed=1)
    return Lane(name, partial(open_contender, name=name), path, threads, feeds)


@pytest.mark.parametrize(("name", "model"), CASES)
def test_outputs_are_the_references(name: str, model: str, tmp_path: Path) -> None:
    """A contender gives the reference's outputs with two threads, and then with one thread.

    Both times it has the same folder, so that the second process may use code that the first
    compiled.
    """
    pytest.importorskip(NEEDS[name])
    for threads in (2, 1):
        with (
            open_lane(REFERENCE, model, threads, tmp_path) as reference,
            open_lane(name, model, threads, tmp_path) as lane,
        ):
            reference.open(60)
            lane.open(120)
            comparison = compare(reference.call(outputs), lane.call(outputs))
            assert comparison.ok, str(comparison)
            assert all(seconds > 0 for seconds in lane.call(turn))


def test_what_is_not_installed_says_what_to_install() -> None:
    with pytest.raises(TargetError) as caught:
        required("no_such_module")
    assert str(caught.value) == (
        "expected the module 'no_such_module', found 'No module named 'no_such_module''; "
        "pip install 'rammer-mlir[bench]'"
    )


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return float(fields[11]) + float(fields[12])


def test_a_lane_stands_still_between_two_calls(tmp_path: Path) -> None:
    """A lane's process is stopped between two calls, and uses no processor time.

    Otherwise ONNX Runtime's threads would spin after a run.
    """
    with open_lane(REFERENCE, "light_squeezenet", 2, tmp_path) as lane:
        lane.open(60)
        lane.call(turn)
        before = processor_seconds(lane.process)
        time.sleep(0.2)
        state = Path(f"/proc/{lane.process}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "T"  # stopped
        assert processor_seconds(lane.process) == before
        lane.call(turn)
