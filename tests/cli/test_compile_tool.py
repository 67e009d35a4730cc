"""Tests that ``rammer-compile`` writes artifacts and stages, and refuses bad options."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.cli.compile import main
from rammer_mlir.compiler.options import check_options
from rammer_mlir.dialects import parse, register
from rammer_mlir.lowering.nvvm.ptxas import find_ptxas
from rammer_mlir.runtime.executable import Executable
from tests.cli.tools import Tool, save_layer

MLIR_STAGES = ("linalg", "operators", "tasks", "buffers", "program", "target")


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    """Return ``rammer-compile``."""
    return Tool(main, capsys)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a model of two layers."""
    return save_layer(tmp_path_factory.mktemp("models") / "layer.onnx")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty directory, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


OPERATIONS = {
    "linalg": "linalg.generic",
    "operators": "rtask.operator",
    "tasks": "rtask.kernel",
    "buffers": "memref",
    "program": "run @",
    "target": "llvm.func @rammer_run_veu",
    "llvm": "define i1 @rammer_run_veu",
}


GPU_BINARIES = {"ptx": b"//", "cubin": b"\x7fELF", "hsaco": b"\x7fELF"}


def test_every_stage_has_a_test() -> None:
    """The lists of this file have every stage of every target."""
    stages = {
        target: check_options(target).backend.emits(check_options(target))
        for target in ("cpu", "nvvm", "rocdl")
    }
    assert stages["cpu"] == (*OPERATIONS, "object")
    assert {*stages["nvvm"], *stages["rocdl"]} == {*OPERATIONS, "object", *GPU_BINARIES}


@pytest.mark.parametrize("stage", OPERATIONS)
def test_stages_are_printed(stage: str, tool: Tool, model: Path, folder: Path) -> None:
    """A stage is printed without large weights; no file is written; MLIR can be parsed again."""
    text = tool.succeed(model, "--emit", stage, "--veus", "2")
    assert OPERATIONS[stage] in text
    assert len(text) < 300_000
    assert list(folder.iterdir()) == []
    if stage in MLIR_STAGES:
        context = ir.Context()
        register(context)
        assert parse(text, context).operation.verify()


def test_node_names_reach_the_timeline(tool: Tool, model: Path, folder: Path) -> None:
    """Names of nodes pass through all stages and the artifact to the timeline."""
    tool.succeed(model, "--veus", "1", "-o", "layer.rammer")
    with rammer_mlir.load("layer.rammer") as executable:
        assert isinstance(executable, Executable)
        executable.timeline("trace.json", {"x": np.ones((4, 8), np.float32)})
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    names = " ".join(event["name"] for event in events if event["ph"] == "X")
    assert "first" in names and "second" in names


def test_a_stage_can_be_written_to_a_file(tool: Tool, model: Path, folder: Path) -> None:
    """``-o FILE`` writes the text that ``-o -`` prints to standard output."""
    assert tool.succeed(model, "--emit", "tasks", "--veus", "2", "-o", "tasks.mlir") == ""
    text = tool.succeed(model, "--emit", "tasks", "--veus", "2", "-o", "-")
    assert Path("tasks.mlir").read_text() == text


def test_an_object_is_written(tool: Tool, model: Path, folder: Path) -> None:
    """``--emit object`` writes an ELF file."""
    tool.succeed(model, "--emit", "object", "--veus", "2", "-o", "layer.o")
    assert Path("layer.o").read_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize("stage", GPU_BINARIES)
def test_gpu_binaries_are_written(stage: str, tool: Tool, model: Path, folder: Path) -> None:
    """Each kind of GPU binary is written; cubins are tested where ptxas is installed."""
    if stage == "cubin" and find_ptxas() is None:
        pytest.skip("needs ptxas")
    target = "rocdl" if stage == "hsaco" else "nvvm"
    tool.succeed(model, "--target", target, "--emit", stage, "--veus", "2", "-o", "layer.bin")
    assert Path("layer.bin").read_bytes().startswith(GPU_BINARIES[stage])


@pytest.mark.parametrize("arguments", [(), ("-o", "other.bin")], ids=["default name", "-o"])
def test_an_artifact_is_written(
    arguments: tuple[str, ...], tool: Tool, model: Path, folder: Path
) -> None:
    """The artifact is written, by default under the model's name, and runs."""
    output = tool.succeed(model, "--policy", "sequential", "--veus", "2", *arguments)
    name = arguments[-1] if arguments else "layer.rammer"
    assert "rTasks" in output and output.endswith(f"written to {name}\n")
    assert [path.name for path in folder.iterdir()] == [name]
    with rammer_mlir.load(name) as executable:
        assert executable.num_veus == 2
        assert executable.run({"x": np.ones((4, 8), np.float32)})["y"].shape == (4, 8)


BAD_OPTIONS = {
    "policy": (["--policy", "fastest"], "unknown policy 'fastest': expected one of "),
    "stage": (
        ["--emit", "asm"],
        "unknown stage 'asm': expected one of linalg, operators, tasks, buffers, program, target, ",
    ),
    "target": (["--target", "tpu"], "unknown target 'tpu': expected one of cpu"),
    "watchdog on a CPU": (["--watchdog", "9"], "watchdog: expected a GPU as target, found 'cpu'"),
    "impatience": (
        ["--target", "nvvm", "--watchdog", "-1"],
        "watchdog: expected a number of polls, at least",
    ),
    "launches on a CPU": (["--per-operator"], "per_operator: expected a GPU as target"),
    "old chip": (["--target", "nvvm:sm_60"], "target 'nvvm:sm_60': expected sm_70 or newer, "),
    "NVIDIA chip": (["--target", "nvvm:sm_1"], "target 'nvvm:sm_1': expected sm_70 or newer, "),
    "AMD chip": (["--target", "rocdl:gfx1"], "target 'rocdl:gfx1': expected one of gfx906, "),
    "empty chip": (["--target", "rocdl:"], "unknown target 'rocdl:': expected one of cpu["),
    "stage of another target": (
        ["--target", "rocdl", "--emit", "ptx"],
        "stage 'ptx': expected one that target 'rocdl' has, linalg, operators, tasks, buffers, ",
    ),
    "stage of GPUs": (
        ["--emit", "ptx"],
        "stage 'ptx': expected one that target 'cpu' has, linalg, operators, tasks, buffers, ",
    ),
    "stage of code generators": (
        ["--emit", "regions"],
        "stage 'regions': expected one that target 'cpu' has, linalg, operators, tasks, buffers, "
        "program, target, llvm, object; choose one of these, or code generators with offload (--",
    ),
    "no vEUs": (["--veus", "0"], "number of vEUs: expected at least 1, found 0"),
    "negative vEUs": (["--veus", "-1"], "number of vEUs: expected at least 1, found -1"),
    "vEUs": (["--veus", "abc"], "argument --veus: expected an integer, found 'abc'"),
    "broken vEUs": (["--veus", "1.5"], "argument --veus: expected an integer, found '1.5'"),
    "too many vEUs": (["--veus", "9" * 30], "number of vEUs: expected at most "),
    "unknown option": (["--fast"], "unrecognized arguments: --fast; see rammer-compile --help"),
    "shape": (["--shape", "x"], "--shape 'x': expected NAME=1,3,224,224"),
    "shape without name": (["--shape", "=1,2"], "--shape '=1,2': expected NAME=1,3,224,224"),
    "shape of words": (["--shape", "x=a,b"], "--shape 'x=a,b': expected NAME=1,3,224,224"),
    "shape with gaps": (["--shape", "x=4,,8"], "--shape 'x=4,,8': expected NAME=1,3,224,224"),
    "shape twice": (
        ["--shape", "x=4,8", "--shape", "x=4,8"],
        "--shape 'x=4,8': 'x' has a shape already; give it once",
    ),
    "shape of nothing": (
        ["--shape", "z=1"],
        "shape for unknown input 'z': the model's inputs are 'x'",
    ),
    "wrong shape": (["--shape", "x=4,9"], "input 'x': "),
    "wrong rank": (["--shape", "x=32"], "input 'x': "),
    "negative shape": (["--shape", "x=-4,8"], "input 'x': "),
    "output without a name": (["-o", ""], "-o: expected the name of a file, found ''"),
    "one file for both": (
        ["-o", "t.html", "--timeline", "./t.html"],
        "-o: 't.html' is the timeline; choose another name",
    ),
    "artifact to stdout": (["-o", "-"], "an artifact cannot be written to standard output"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options(
    arguments: list[str], message: str, tool: Tool, model: Path, folder: Path
) -> None:
    """A bad option is refused in one line, which has the bad value; nothing is written."""
    found = tool.fail(model, *arguments)
    assert found.startswith(message)
    assert list(folder.iterdir()) == []


def test_the_model_is_not_overwritten(tool: Tool, model: Path) -> None:
    before = model.read_bytes()
    assert tool.fail(model, "-o", model).endswith("is the model; choose another name")
    assert model.read_bytes() == before


def test_a_link_stays_a_link(tool: Tool, model: Path, folder: Path) -> None:
    """If ``-o`` names a symbolic link, the artifact replaces the file that the link leads to."""
    link, file = folder / "link.rammer", folder / "file.rammer"
    file.write_bytes(b"old")
    link.symlink_to(file.name)
    tool.succeed(model, "-o", link)
    assert link.is_symlink()
    assert rammer_mlir.load(file).signature.inputs[0].name == "x"


_ENDLESS = """
import ctypes
import signal
from rammer_mlir.cli import common

def lock_twice():
    print("ready", flush=True)
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
    return 0

common._GRACE = 0.2
# Who starts the tests may ignore the signal, as shells do in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
raise SystemExit(common.run_tool(lock_twice, debug=False))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_in_native_code_that_does_not_end(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + number
    assert errors == f"error: ended by {number.name}, in native code that did not end\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_in_the_middle_of_a_file(
    number: signal.Signals, tool: Tool, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal during writing leaves no file; the exit code is 128 plus the signal's number."""

    def fsync(_: int) -> None:
        assert len(list(folder.iterdir())) == 1  # under a name of its own
        signal.raise_signal(number)

    monkeypatch.setattr(os, "fsync", fsync)
    # Who starts the tests may have chosen to ignore the signal, as shells do in the background.
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)
    try:
        code, _, errors = tool.run(model, "-o", "out.rammer")
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)
    assert code == 128 + number
    assert errors == (
        "error: interrupted\n" if number == signal.SIGINT else f"error: ended by {number.name}\n"
    )
    assert list(folder.iterdir()) == []


def test_standard_output_that_is_closed(model: Path, folder: Path) -> None:
    """A closed standard output is an error if the tool prints, none if it writes a file."""
    script = 'exec >&-; "$0" -m rammer_mlir.cli.compile "$@"'
    command = ["sh", "-c", script, sys.executable, str(model)]
    to_file = subprocess.run([*command, "-o", "m.rammer"], capture_output=True, check=False)
    assert (to_file.returncode, to_file.stderr) == (0, b"")
    assert (folder / "m.rammer").exists()
    printed = subprocess.run([*command, "--emit", "linalg"], capture_output=True, check=False)
    assert printed.returncode == 1
    assert printed.stderr.startswith(b"error: cannot write to standard output: it is closed")


@pytest.mark.parametrize("shape", ["x=4,8", "x=4x8"])
def test_shapes_that_agree(shape: str, tool: Tool, model: Path) -> None:
    """Sizes of a shape are separated by commas, or by x as in MLIR."""
    assert "4x8" in tool.succeed(model, "--emit", "linalg", "--shape", shape)


def test_a_missing_model_argument(tool: Tool) -> None:
    """A missing model is an error of one line, without the usage text."""
    message = tool.fail()
    wanted = "the following arguments are required: MODEL.onnx|MODULE.mlir"
    assert message == f"{wanted}; see rammer-compile --help"


def test_targets_are_listed_with_what_they_lack(tool: Tool) -> None:
    """``--list-targets`` prints a line for each target.

    The lines of both GPU targets say that no run on a real GPU is recorded.
    """
    lines = tool.succeed("--list-targets").splitlines()
    assert lines[0] == "Targets:" and len(lines) >= 5
    assert any(line.startswith("  nvvm[:CHIP[+tf32]] ") for line in lines)
    assert sum("No run on a real GPU" in line for line in lines) == 2


def test_help_lists_the_stages(tool: Tool) -> None:
    """``--help`` lists the stages, and exits with 0."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "program, target, llvm, object" in " ".join(tool.capture.readouterr().out.split())


def test_debug_prints_a_traceback(tool: Tool, model: Path) -> None:
    """``--debug`` prints a traceback before the line of the error."""
    code, _, errors = tool.run(model, "--policy", "fastest", "--debug")
    assert code == 1
    assert errors.startswith("Traceback") and "\nerror: unknown policy" in errors


@pytest.mark.parametrize("emit", [(), ("--emit", "program")], ids=["artifact", "stage"])
def test_outputs_that_cannot_be_written(
    emit: tuple[str, ...], tool: Tool, model: Path, folder: Path
) -> None:
    """A full device, a missing directory, or a directory as output is refused."""
    (folder / "taken").mkdir()
    for name, reason in (
        ("/dev/full", errno.ENOSPC),
        ("none/out", errno.ENOENT),
        ("taken", errno.EISDIR),
    ):
        message = tool.fail(model, *emit, "--veus", "1", "-o", name)
        assert message == f"cannot write '{name}': {os.strerror(reason)}; choose another place"
    assert [path.name for path in folder.iterdir()] == ["taken"]


@pytest.mark.parametrize("option", ["-o", "--timeline"])
def test_outputs_are_found_unwritable_before_anything_is_compiled(
    option: str, tool: Tool, folder: Path
) -> None:
    """An unwritable output is reported before a damaged model."""
    (folder / "not.onnx").write_bytes(b"no model")
    assert tool.fail("not.onnx", option, "none/out").startswith("cannot write 'none/out': ")
    assert "not an ONNX model" in tool.fail("not.onnx", option, "out")


def test_standard_output_that_is_full(model: Path) -> None:
    """If standard output is full, the tool prints one line of error, and no other line at exit."""
    command = [sys.executable, "-m", "rammer_mlir.cli.compile", str(model), "--emit", "linalg"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120
        )
    assert result.returncode == 1
    assert (
        result.stderr
        == "error: cannot write to standard output: No space left on device; choose another place\n"
    )


def test_a_reader_that_goes_away(model: Path) -> None:
    """If the reader closes the pipe, the tool prints no traceback and no error."""
    command = [sys.executable, "-m", "rammer_mlir.cli.compile", str(model), "--emit", "llvm"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (1, b"")


def test_a_predicted_timeline_shows_policies_side_by_side(
    tool: Tool, model: Path, folder: Path
) -> None:
    compared = ["--compare", "sequential,list", "--timeline", "predicted.json"]
    tool.succeed(model, "-o", "m.rammer", "--veus", "2", *compared)
    trace = json.loads((folder / "predicted.json").read_text())["traceEvents"]
    titles = [e["args"]["name"] for e in trace if e["name"] == "process_name"]
    assert [title.split(",")[0] for title in titles] == ["wavefront", "sequential", "list"]
    rtasks = [e for e in trace if e.get("cat") == "rtask"]
    assert {e["pid"] for e in rtasks} == {0, 1, 2}
    assert all(e["dur"] > 0 for e in rtasks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "list"], "--compare: expected --timeline with it"),
        (["--timeline", "t.html", "--compare", "list,best"], "unknown policy 'best'"),
        (["--timeline", "t.html", "--emit", "llvm"], "--timeline: expected a whole compilation"),
    ],
)
def test_timelines_that_cannot_be_made(
    tool: Tool, model: Path, folder: Path, arguments: list[str], message: str
) -> None:
    assert tool.fail(model, *arguments).startswith(message)
    assert list(folder.iterdir()) == []
