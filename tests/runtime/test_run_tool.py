"""Tests that ``rammer-run`` reads and writes arrays, measures times, and writes timelines.

Its errors are single lines.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rammer_mlir.cli.arrays import read_arrays, write_arrays
from rammer_mlir.cli.open_models import given_inputs
from rammer_mlir.cli.run import main
from rammer_mlir.programs.signature import TensorSpec
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.timeline.spans import Span, Timeline
from tests.cli.tools import save_layer
from tests.runtime.ring import Ring

RING = Ring(2, layers=4)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the artifact of a ring program, whose result is known (``ring.py``)."""
    path = tmp_path_factory.mktemp("run") / "ring.rammer"
    with RING.build() as executable:
        executable.save(path)
    return str(path)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of an .npz file with the input of the ring program (``ring.py``)."""
    path = tmp_path_factory.mktemp("inputs") / "in.npz"
    np.savez(path, x=RING.input())
    return str(path)


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the tool; check that it fails with exit code 1 and one line of error; return the line."""
    capsys.readouterr()
    assert main(arguments) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: ") and errors.count("\n") == 1
    return errors


def test_outputs_of_an_artifact(artifact: str, inputs: str, tmp_path: Path) -> None:
    target = tmp_path / "out.npz"
    assert main([artifact, "--inputs", inputs, "--outputs", str(target)]) == 0
    with np.load(target) as outputs:
        assert outputs.files == ["y"]
        np.testing.assert_array_equal(outputs["y"], RING.expected(RING.input()))


def test_random_inputs_follow_the_seed(artifact: str, tmp_path: Path) -> None:
    results: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    for number, seed in enumerate(("0", "0", "1")):
        target = tmp_path / f"{number}.npz"
        assert main([artifact, "--seed", seed, "--outputs", str(target)]) == 0
        with np.load(target) as outputs:
            results.append(outputs["y"])
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_latency_and_outputs_are_printed(artifact: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([artifact, "--repeat", "5", "--veus", "2", "--shape", "x=5,40"]) == 0
    text = capsys.readouterr().out
    assert "ms median of 5 (from " in text
    assert "output 'y'  5x40 float32" in text


def test_threads_are_pinned(artifact: str, capsys: pytest.CaptureFixture[str]) -> None:
    core = min(os.sched_getaffinity(0))
    assert main([artifact, "--pin", f"{core},{core}"]) == 0
    assert "pinning: expected 2 cores of" in failure(capsys, artifact, "--pin", str(core))
    assert "expected numbers of cores, as 0,1, found 'x'" in failure(capsys, artifact, "--pin", "x")


def test_fewer_threads_than_veus(artifact: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([artifact, "--threads", "1"]) == 0
    core = min(os.sched_getaffinity(0))
    assert main([artifact, "--threads", "1", "--pin", str(core)]) == 0
    assert "threads: expected" in failure(capsys, artifact, "--threads", "0")


def test_the_median_run_is_recorded(
    artifact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = iter((5e-3, 1e-3, 3e-3, 2e-3, 4e-3))

    def recorded(*_: object) -> Timeline:
        return Timeline("run", ((Span(0, 0.0, next(ends), "rtask", "task"),),))

    monkeypatch.setattr(Executable, "record", recorded)
    target = tmp_path / "trace.json"
    assert main([artifact, "--timeline", str(target)]) == 0
    spans = [e for e in json.loads(target.read_text())["traceEvents"] if e.get("name") == "task"]
    assert [span["dur"] for span in spans] == [3000.0]


def test_a_timeline_is_written(artifact: str, tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    assert main([artifact, "--timeline", str(target)]) == 0
    names = {event["name"] for event in json.loads(target.read_text())["traceEvents"]}
    assert {"layer0", "layer3", "barrier"} <= names


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["--info", "--repeat", "3"], "--repeat: does not apply with --info, which runs nothing"),
        (["--modules", "--no-cache"], "--no-cache: does not apply with --modules"),
        (["--verify", "--info"], "--info: does not apply with --verify"),
        (["--verify", "--veus", "2"], "--veus: does not apply with --verify"),
    ],
)
def test_options_without_a_run(
    artifact: str, arguments: list[str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flag in failure(capsys, artifact, *arguments)
    assert main([artifact, "--info", "--modules"]) == 0


def test_a_model_from_a_pipe(tmp_path: Path) -> None:
    """A pipe can be read only once, but ``--compare`` compiles the model again."""
    model = save_layer(tmp_path / "layer.onnx").read_bytes()
    pipe, trace = tmp_path / "pipe", tmp_path / "t.json"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(model,))
    writer.start()
    options = ["--compare", "sequential", "--threads", "1", "--timeline", str(trace)]
    assert main([str(pipe), "--veus", "2", *options]) == 0
    writer.join()
    assert "sequential, measured with 2 vEUs" in trace.read_text()


def test_dtypes_that_numpy_lacks(tmp_path: Path) -> None:
    """Their elements are written as raw bytes, which NumPy can read."""
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn):
        array = np.arange(6).astype(dtype).reshape(2, 3)
        write_arrays(tmp_path / "narrow.npz", {"x": array})
        read = read_arrays(str(tmp_path / "narrow.npz"))
        found = given_inputs([TensorSpec("x", (2, 3), array.dtype)], read)["x"]
        assert found.dtype == array.dtype
        assert found.tobytes() == array.tobytes()


def test_policies_are_recorded_side_by_side(tmp_path: Path) -> None:
    model = save_layer(tmp_path / "layer.onnx")
    page, trace = tmp_path / "t.html", tmp_path / "t.json"
    compared = ["--veus", "2", "--compare", "sequential, list"]
    assert main([str(model), *compared, "--timeline", str(page)]) == 0
    assert main([str(model), *compared, "--timeline", str(trace)]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    titles = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert titles == [
        f"{policy}, measured with 2 vEUs" for policy in ("wavefront", "sequential", "list")
    ]
    assert all(title in page.read_text() for title in titles)


def test_an_artifact_has_one_schedule(
    artifact: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "t.html"
    assert main([artifact, "--timeline", str(target), "--compare", "list"]) == 1
    assert "--compare: expected an ONNX model" in capsys.readouterr().err
    assert not target.exists()


def test_an_onnx_model_is_compiled_and_run(tmp_path: Path) -> None:
    kind = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [kind], [result])
    onnx.save(helper.make_model(graph), tmp_path / "relu.onnx")
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=x)
    arguments = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    assert main([str(tmp_path / "relu.onnx"), "--veus", "1", *arguments]) == 0
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], np.maximum(x, 0))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.zeros((5, 40), "f")}, "unknown input 'z': expected 'x' 5x40 float32"),
        ({}, "input 'x' is missing"),
        ({"x": np.zeros((5, 41), "f")}, "'x': expected shape 5x40, found 5x41"),
        ({"x": np.zeros((5, 40))}, "'x': expected dtype float32, found float64"),
    ],
    ids=["name", "missing", "shape", "dtype"],
)
def test_inputs_that_do_not_fit(
    artifact: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]],
    message: str,
) -> None:
    source, target = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(source, allow_pickle=False, **arrays)
    assert message in failure(capsys, artifact, "--inputs", str(source), "--outputs", str(target))
    assert [file.name for file in tmp_path.iterdir()] == ["in.npz"]


def test_input_files_that_hold_no_arrays(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "in.npz"
    for content in (b"", b"PK\x03\x04 cut short", b"text"):
        bad.write_bytes(content)
        assert "in.npz" in failure(capsys, artifact, "--inputs", str(bad))
    np.save(tmp_path / "one.npy", np.zeros(3))
    assert "is one array" in failure(capsys, artifact, "--inputs", str(tmp_path / "one.npy"))
    np.savez(bad, x=np.array([None]))
    assert "not an .npz file of arrays" in failure(capsys, artifact, "--inputs", str(bad))
    assert "cannot read" in failure(capsys, artifact, "--inputs", str(tmp_path / "absent.npz"))


def test_damaged_input_files(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A compressed input file with a damaged byte gives at most one line of error."""
    source, bad = tmp_path / "in.npz", tmp_path / "bad.npz"
    np.savez_compressed(source, x=RING.input())
    data = source.read_bytes()
    refused = 0
    for position in range(0, len(data), 5):
        bad.write_bytes(data[:position] + bytes([data[position] ^ 0x5A]) + data[position + 1 :])
        capsys.readouterr()
        code = main([artifact, "--inputs", str(bad)])
        errors = capsys.readouterr().err
        assert (code, errors.count("\n")) in ((0, 0), (1, 1))
        assert not errors or errors.startswith("error: ")
        refused += code
    assert refused > 10


def test_options_that_contradict_an_artifact(
    artifact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "compiled for 2" in failure(capsys, artifact, "--veus", "3")
    assert "compiled for (5, 40)" in failure(capsys, artifact, "--shape", "x=5,41")
    assert "--shape z: expected one of the inputs, 'x'" in failure(
        capsys, artifact, "--shape", "z=1"
    )
    assert "holds a finished schedule" in failure(capsys, artifact, "--policy", "sequential")
    assert "compiled for cpu" in failure(capsys, artifact, "--target", "nvvm")


def test_bad_options(artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--seed: expected at least 0" in failure(capsys, artifact, "--seed", "-1")
    assert "--device: expected at least 0" in failure(capsys, artifact, "--device", "-3")
    assert "--device: expected a GPU" in failure(capsys, artifact, "--device", "3")
    assert "--repeat: expected at least 1" in failure(capsys, artifact, "--repeat", "0")
    assert "cannot read" in failure(capsys, str(tmp_path / "absent.rammer"))
    assert "expected an integer" in failure(capsys, artifact, "--veus", "two")
    text = tmp_path / "text.rammer"
    text.write_text("no archive")
    assert "not a compiled model" in failure(capsys, str(text))


@pytest.mark.parametrize("option", ["--outputs", "--timeline"])
def test_outputs_are_found_unwritable_before_anything_is_run(
    option: str, artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An output path that cannot be written is refused before the run, and no file is left."""
    for name, reason in ((tmp_path / "absent" / "out", "No such file"), (tmp_path, "directory")):
        assert main([artifact, option, str(name)]) == 1
        printed = capsys.readouterr()
        assert printed.out == "" and f"cannot write '{name}': " in printed.err
        assert reason in printed.err
    assert not list(tmp_path.iterdir())


def test_outputs_that_cannot_be_written(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = tmp_path / "absent"
    for option in ("--outputs", "--timeline"):
        assert "cannot write" in failure(capsys, artifact, option, str(absent / "out"))
    assert not absent.exists()
    if Path("/dev/full").exists():
        assert "No space left" in failure(capsys, artifact, "--outputs", "/dev/full")


def test_arrays_of_any_name_are_written(tmp_path: Path) -> None:
    arrays = {"file": np.arange(3), "allow_pickle": np.ones((2, 0), np.float16), "a/b": np.bool_(1)}
    write_arrays(tmp_path / "out.npz", {name: np.asarray(v) for name, v in arrays.items()})
    found = read_arrays(str(tmp_path / "out.npz"))
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == np.asarray(array).dtype
        np.testing.assert_array_equal(found[name], array)


def test_files_of_a_run_have_names_of_their_own(
    artifact: str, inputs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = str(tmp_path / "both.npz")
    before = Path(artifact).read_bytes(), Path(inputs).read_bytes()
    assert "uses already" in failure(capsys, artifact, "--outputs", artifact)
    assert "uses already" in failure(capsys, artifact, "--inputs", inputs, "--outputs", inputs)
    assert "uses already" in failure(capsys, artifact, "--outputs", both, "--timeline", both)
    for option in ("--inputs", "--outputs", "--timeline"):
        assert "expected the name of a file, found ''" in failure(capsys, artifact, option, "")
    assert (Path(artifact).read_bytes(), Path(inputs).read_bytes()) == before


def test_a_folder_cannot_be_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read" in failure(capsys, "--verify", str(tmp_path))
