"""Tests that artifacts are saved, and loaded without a compiler, with the same results.

Damaged and foreign files are refused.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import ArtifactError, OptionError, TargetError
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.runtime.executable import Executable
from tests.runtime.artifacts import RING, SMALL, loads_and_runs, refusal


@pytest.fixture(scope="module")
def executable() -> Iterator[Executable]:
    """A program with a weight, compiled as a dispatch loop over a task table."""
    with RING.build() as built:
        yield built


@pytest.fixture(scope="module")
def saved(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the artifact of the program ``executable``."""
    path = tmp_path_factory.mktemp("artifacts") / "ring.rammer"
    executable.save(path)
    return path


@pytest.mark.parametrize("method", ["save", "timeline"])
def test_paths_of_another_kind_are_refused(method: str) -> None:
    feeds = [{"x": RING.input(1)}] if method == "timeline" else []
    with (
        RING.build() as executable,
        pytest.raises(OptionError, match=f"{method}: expected the path of a file, found 3.5"),
    ):
        getattr(executable, method)(3.5, *feeds)


def test_round_trip(executable: Executable, saved: Path) -> None:
    """A loaded executable has the same signature, summary and results as the saved one."""
    with rammer_mlir.load(saved) as loaded:
        assert loaded.signature == executable.signature
        assert loaded.num_veus == executable.num_veus
        assert loaded.summary == executable.summary
        for seed in range(50):
            feeds = {"x": RING.input(seed)}
            assert np.array_equal(loaded.run(feeds)["y"], executable.run(feeds)["y"])


def test_a_loaded_executable_can_be_saved(saved: Path, tmp_path: Path) -> None:
    """Saving a loaded executable writes the same file."""
    with rammer_mlir.load(saved) as loaded:
        loaded.save(tmp_path / "copy.rammer")
    assert (tmp_path / "copy.rammer").read_bytes() == saved.read_bytes()


def test_saving_over_a_loaded_artifact(saved: Path, tmp_path: Path) -> None:
    """An executable whose weights are mapped from a file can replace that file and still run."""
    path = tmp_path / "again.rammer"
    path.write_bytes(saved.read_bytes())
    with rammer_mlir.load(path) as loaded:
        loaded.save(path)
        assert loads_and_runs(path)
        assert RING.is_right(loaded)


DEPLOYED = """
import sys
for name in ("torch_mlir", "mlir", "llvmlite", "onnx", "onnxscript", "onnxruntime"):
    sys.modules[name] = None  # importing it fails
import numpy as np
import rammer_mlir
with rammer_mlir.load(sys.argv[1]) as executable:
    y = executable.run({"x": np.load(sys.argv[2])})["y"]
    executable.timeline(sys.argv[4], {"x": np.load(sys.argv[2])})
np.save(sys.argv[3], y)
ours = {name.split(".")[1] for name in sys.modules if name.startswith("rammer_mlir.")}
print(*sorted(ours & {"bindings", "dialects", "passes", "lowering", "compiler", "frontends"}))
"""


def test_running_an_artifact_needs_no_compiler(saved: Path, tmp_path: Path) -> None:
    """Loading and running an artifact imports neither the MLIR bindings nor llvmlite nor onnx."""
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, RING.input())
    command = [sys.executable, "-c", DEPLOYED, *map(str, (saved, x, y, tmp_path / "t.json"))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "\n")
    assert np.array_equal(np.load(y), RING.expected(RING.input()))


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"rammer", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x7fELF" + bytes(500)],
    ids=["empty", "zero", "text", "begin of a ZIP", "empty ZIP", "ELF"],
)
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    """Files that are no artifacts are refused, whatever their content."""
    path = tmp_path / "foreign.rammer"
    path.write_bytes(content)
    assert "is not a compiled model" in refusal(path)


def test_foreign_archives(tmp_path: Path) -> None:
    """A ZIP archive of something else, such as an .npz file, is refused."""
    np.savez(tmp_path / "arrays.npz", x=np.zeros(3))
    assert "is not a compiled model" in refusal(tmp_path / "arrays.npz")


@pytest.mark.parametrize("manifest", ["[]", "{}", "null", '{"format": "onnx"}', "{", "\x80", "7"])
def test_foreign_manifests(manifest: str, tmp_path: Path) -> None:
    """An archive whose manifest is not that of an artifact is refused."""
    path = tmp_path / "foreign.rammer"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", manifest)
    assert "is not a compiled model" in refusal(path)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    """Loading a missing file or a directory reports the system's reason."""
    assert refusal(tmp_path / "none").endswith("No such file or directory")
    assert refusal(tmp_path).endswith("Is a directory")


def test_truncated_files(saved: Path, tmp_path: Path) -> None:
    """An artifact that is cut off at any byte is refused."""
    content = saved.read_bytes()
    path = tmp_path / "short.rammer"
    generator = np.random.default_rng(0)
    lengths = {len(content) - 1, len(content) - 22, *generator.integers(0, len(content), 60)}
    for length in lengths:
        path.write_bytes(content[:length])
        refusal(path)


def test_flipped_bits(saved: Path, tmp_path: Path) -> None:
    """An artifact with a flipped bit is refused, or still gives right results.

    The latter happens if nothing reads the damaged byte.
    """
    content = saved.read_bytes()
    path = tmp_path / "flipped.rammer"
    generator = np.random.default_rng(1)
    directory = len(content) - 1500  # headers are few: look at them more closely
    positions = [
        *generator.integers(0, len(content), 150),
        *range(0, 120),
        *range(directory, len(content), 7),
    ]
    refused = 0
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        try:
            assert loads_and_runs(path), f"byte {position}"
        except ArtifactError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > len(positions) // 2


def refused_saving(executable: RunnableModel, path: Path, reason: str) -> None:
    """Check that saving to ``path`` fails for ``reason``, and leaves no new file."""
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    with pytest.raises(ArtifactError) as caught:
        executable.save(path)
    assert str(caught.value) == f"cannot write '{path}': {reason}; choose another place"
    if path.parent.is_dir():
        assert sorted(path.parent.iterdir()) == before


def test_saving_where_there_is_no_space(executable: Executable) -> None:
    """Saving to a full device reports the system's reason."""
    with pytest.raises(ArtifactError) as caught:
        executable.save("/dev/full")
    reason = "cannot write '/dev/full': No space left on device; choose another place"
    assert str(caught.value) == reason


def test_saving_fails_midway(executable: Executable, saved: Path, tmp_path: Path) -> None:
    """If writing fails midway, the old file stays as it was, and no temporary file remains."""
    path = tmp_path / "model.rammer"
    path.write_bytes(b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with rammer_mlir.load(saved) as loaded:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
        try:
            refused_saving(loaded, path, "File too large")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"before"


def test_saving_to_bad_places(executable: Executable, tmp_path: Path) -> None:
    """Saving to a directory, into a missing directory, or under a too long name is refused."""
    (tmp_path / "folder").mkdir()
    refused_saving(executable, tmp_path / "folder", "Is a directory")
    refused_saving(executable, tmp_path / "none" / "m.rammer", "No such file or directory")
    refused_saving(executable, tmp_path / ("m" * 300), "File name too long")


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory that this process may not write, even if it runs as the superuser."""
    nobody, user = 65534, os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(nobody)
        try:
            yield folder
        finally:
            os.seteuid(user)
            folder.chmod(0o755)


def test_saving_to_a_read_only_directory(executable: Executable, read_only: Path) -> None:
    """Saving to a read-only directory reports the system's reason."""
    refused_saving(executable, read_only / "m.rammer", "Permission denied")


def test_saving_without_a_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a linker, compiling and running work, and saving fails with a hint to install one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    path = tmp_path / "model.rammer"
    with SMALL.build() as executable:
        executable(np.ones((3, 5), np.float32))
        with pytest.raises(
            TargetError, match="found none; install one with 'pip install"
        ) as caught:
            executable.save(path)
    assert "\n" not in str(caught.value)
    assert not path.exists()
