"""``rammer-run --verify`` prints one line for any file, and needs no compiler."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build
from rammer_mlir.checker import verify
from rammer_mlir.cli.run import main
from rammer_mlir.errors import ScheduleError
from rammer_mlir.runtime.artifact import write_members as write_sealed
from tests.checker.files import read_members, write_members
from tests.cli.tools import Tool

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=["cpu", "nvvm:sm_90"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of a small model, for a CPU and for a GPU."""
    path = tmp_path_factory.mktemp("verified") / "model.rammer"
    model = build("attention", scale="small")
    with rammer_mlir.compile(model, target=request.param, num_veus=3) as executable:
        executable.save(path)
    return path


def test_good(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The schedule of a valid artifact is proven, and one line counts its programs and vEUs."""
    output = Tool(main, capsys).succeed("--verify", saved)
    assert output.startswith("proven in ") and output.count("\n") == 1
    assert "programs 1, vEUs 3, rTasks" in output


def test_a_dropped_barrier(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An artifact from whose records a barrier is removed, but not from its table, is refused.

    The message names rule 6: the records must be those that the table encodes.
    """
    members = read_members(saved)
    program = json.loads(members["program.json"])
    veu = next(v for v in program["launches"][0] if any(isinstance(r[0], list) for r in v))
    veu.remove(next(r for r in veu if isinstance(r[0], list)))
    members["program.json"] = json.dumps(program).encode()
    path = write_members(tmp_path / "changed.rammer", members)
    message = Tool(main, capsys).fail("--verify", path)
    assert message.startswith(f"'{path}': rule 6 (encoded): ") and "expected" in message


def test_a_table_with_hostile_numbers(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table with about twenty extreme words in place of its own is refused by rule 6."""
    members = read_members(saved)
    name = "records.bin" if "records.bin" in members else "tables.bin"
    kind = np.dtype("<i4" if name == "records.bin" else "<i8")
    for value in (np.iinfo(kind).min, -1, np.iinfo(kind).max):
        words = np.frombuffer(members[name], kind).copy()
        words[:: max(1, len(words) // 20)] = value
        path = write_members(tmp_path / "hostile.rammer", members | {name: words.tobytes()})
        assert "rule 6 (encoded)" in Tool(main, capsys).fail("--verify", path)


HOSTILE = (-1, 1 << 31, 1 << 62, 1 << 200, 1.5, True, None, "x", [], {}, [[]])


@pytest.mark.parametrize("member", ["program.json", "proof.json", "manifest.json"])
def test_hostile_numbers_in_json(
    member: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An artifact with a hostile value in its JSON gets a verdict of one line, never a traceback.

    The artifact is refused, unless the changed JSON still proves the schedule.
    """
    members = read_members(saved)
    for number in range(60):
        found = json.loads(members[member])
        rng = np.random.default_rng(number)
        place = found
        while True:
            key = (
                rng.choice(list(place))
                if isinstance(place, dict)
                else int(rng.integers(len(place)))
            )
            inner = place[key]
            if not isinstance(inner, list | dict) or not inner or rng.random() < 0.1:
                break
            place = inner
        place[key] = HOSTILE[number % len(HOSTILE)]
        changed = members | {member: json.dumps(found).encode()}
        tool, path = Tool(main, capsys), write_members(tmp_path / "hostile.rammer", changed)
        code, output, errors = tool.run("--verify", path)
        assert "internal error" not in errors and "Traceback" not in errors
        assert (code, (output + errors).count("\n")) in ((0, 1), (1, 1)), (member, number, errors)


@pytest.mark.parametrize("kept", [0, 10, 1000, -1])
def test_truncated(
    kept: int, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A truncated artifact is refused as damaged."""
    path = tmp_path / "part.rammer"
    path.write_bytes(saved.read_bytes()[:kept])
    assert "is not a compiled model or is damaged" in Tool(main, capsys).fail("--verify", path)


def test_foreign_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Archives that are no artifacts, and missing files, are refused."""
    np.savez(tmp_path / "arrays.npz", x=np.zeros(3))
    tool = Tool(main, capsys)
    assert "is not a compiled model" in tool.fail("--verify", tmp_path / "arrays.npz")
    assert "cannot read" in tool.fail("--verify", tmp_path / "none.rammer")


def test_needs_numpy_alone(saved: Path, tmp_path: Path) -> None:
    """The checker runs where only this package, NumPy and the standard library are."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "rammer_mlir").symlink_to(ROOT / "rammer_mlir")
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (site / name).symlink_to(packages / name)
    command = (
        f"import sys; sys.path.append({str(site)!r})\n"
        "from rammer_mlir.checker import verify\n"
        f"print(verify({str(saved)!r}))\n"
        "names = [n for n in sys.modules if n.startswith('rammer_mlir.')]\n"
        "print(sorted(n for n in names if 'checker' not in n))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", command], capture_output=True, text=True
    )
    assert done.stderr == "" and done.stdout.startswith("proven in ")
    # The package itself declares its options when it is imported; the checker uses errors alone.
    assert done.stdout.splitlines()[1] == "['rammer_mlir.errors', 'rammer_mlir.options']"


def test_programs_are_proven_that_the_loader_finds(tmp_path: Path) -> None:
    """A file whose root has the keys of an intact program besides its specializations is refused.

    The loader of specializations does not look at the root.
    """
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
      g (float[n,8] x) => (float[n,8] y) { y = Softmax(x) }""")
    path = tmp_path / "open.rammer"
    made: Any = rammer_mlir.compile(model, cache=False, num_veus=1)
    with made:
        made.prepare(n=4)
        made.save(path)
    assert verify(path).programs == 1
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    del manifest["seal"]
    (entry,) = manifest["specializations"]
    folder = entry["folder"]
    decoy = {f"decoy/{n.removeprefix(folder)}": c for n, c in members.items() if folder in n}
    program = json.loads(members[f"{folder}program.json"])
    program["slots"] = [
        [*slot[:2], 1 << 20, *slot[3:]] if slot[0] == "output" else slot
        for slot in program["slots"]
    ]
    members[f"{folder}program.json"] = json.dumps(program).encode()
    crafted = {**entry, **manifest, "folder": "decoy/"}
    pieces = {name: (content,) for name, content in {**members, **decoy}.items()}
    write_sealed(path, crafted, pieces)
    with pytest.raises(ScheduleError):
        verify(path)
