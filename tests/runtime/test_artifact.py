"""Artifacts: saved, loaded without a compiler, and refused when they are not whole or not ours."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import ArtifactError, TargetError
from rammer_mlir.runtime import artifact as format_module
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.seal import SEAL, Content, seal_of
from tests.runtime.elementwise import Elementwise
from tests.runtime.ring import Ring

RING = Ring(num_veus=2, layers=60)
SMALL = Elementwise((3, 5), "f32", np.dtype(np.float32), "%q = arith.addf %p, %p : f32")


@pytest.fixture(scope="module")
def executable() -> Iterator[Executable]:
    """A program in the table form with a weight."""
    with RING.build() as built:
        yield built


@pytest.fixture(scope="module")
def saved(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its artifact."""
    path = tmp_path_factory.mktemp("artifacts") / "ring.rammer"
    executable.save(path)
    return path


def loads_and_runs(path: Path) -> bool:
    """Load the ring's artifact and return whether it gives the right result."""
    with rammer_mlir.load(path) as loaded:
        return RING.is_right(loaded)


def refusal(path: Path) -> str:
    """Return the message with which loading is refused; it is one line and names the file."""
    with pytest.raises(ArtifactError) as caught:
        rammer_mlir.load(path)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    return message


def test_round_trip(executable: Executable, saved: Path) -> None:
    """Everything that users can see comes back, and results are equal."""
    with rammer_mlir.load(saved) as loaded:
        assert loaded.signature == executable.signature
        assert loaded.num_veus == executable.num_veus
        assert loaded.summary == executable.summary
        for seed in range(50):
            feeds = {"x": RING.input(seed)}
            assert np.array_equal(loaded.run(feeds)["y"], executable.run(feeds)["y"])


def test_a_loaded_executable_can_be_saved(saved: Path, tmp_path: Path) -> None:
    """The copy is the same file."""
    with rammer_mlir.load(saved) as loaded:
        loaded.save(tmp_path / "copy.rammer")
    assert (tmp_path / "copy.rammer").read_bytes() == saved.read_bytes()


def test_saving_over_a_loaded_artifact(saved: Path, tmp_path: Path) -> None:
    """The weights are mapped from the file, and stay right when it is replaced."""
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
    """Neither the bindings nor llvmlite nor onnx is imported."""
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, RING.input())
    command = [sys.executable, "-c", DEPLOYED, *map(str, (saved, x, y, tmp_path / "t.json"))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "\n")
    assert np.array_equal(np.load(y), RING.expected(RING.input()))


def test_weights_are_mapped_and_aligned(saved: Path) -> None:
    """Loading does not copy them."""
    image = format_module.read_artifact(saved).image
    assert isinstance(image.constants, np.memmap)
    assert image.constants.ctypes.data % 64 == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"rammer", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x7fELF" + bytes(500)],
    ids=["empty", "zero", "text", "begin of a ZIP", "empty ZIP", "ELF"],
)
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    """They are refused whatever they hold."""
    path = tmp_path / "foreign.rammer"
    path.write_bytes(content)
    assert "is not a compiled model" in refusal(path)


def test_foreign_archives(tmp_path: Path) -> None:
    """A ZIP archive of something else, such as an .npz file, is refused."""
    np.savez(tmp_path / "arrays.npz", x=np.zeros(3))
    assert "is not a compiled model" in refusal(tmp_path / "arrays.npz")


@pytest.mark.parametrize("manifest", ["[]", "{}", "null", '{"format": "onnx"}', "{", "\x80", "7"])
def test_foreign_manifests(manifest: str, tmp_path: Path) -> None:
    """So is one with a manifest that is not ours."""
    path = tmp_path / "foreign.rammer"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", manifest)
    assert "is not a compiled model" in refusal(path)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    """The system's reason is given."""
    assert refusal(tmp_path / "none").endswith("No such file or directory")
    assert refusal(tmp_path).endswith("Is a directory")


def test_truncated_files(saved: Path, tmp_path: Path) -> None:
    """Wherever the file ends too early."""
    content = saved.read_bytes()
    path = tmp_path / "short.rammer"
    generator = np.random.default_rng(0)
    lengths = {len(content) - 1, len(content) - 22, *generator.integers(0, len(content), 60)}
    for length in lengths:
        path.write_bytes(content[:length])
        refusal(path)


def test_flipped_bits(saved: Path, tmp_path: Path) -> None:
    """A damaged file is refused, or the damage is where nothing is read, and results are right."""
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


def contents(path: Path) -> dict[str, bytes]:
    """Read all members of an artifact."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write an archive of these members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def rewritten(
    saved: Path, path: Path, edit: Callable[[dict[str, Any]], object], **members: bytes | None
) -> Path:
    """Write the artifact as if it had another manifest, and members replaced or left out."""
    found = {name: members.get(name.partition(".")[0], d) for name, d in contents(saved).items()}
    manifest = json.loads(found.pop("manifest.json") or b"")
    kept = {name: data for name, data in found.items() if data is not None}
    edit(manifest)
    sealed = (Content(name, len(data), zlib.crc32(data)) for name, data in kept.items())
    manifest[SEAL] = seal_of(manifest, sealed)
    return write_members(path, {"manifest.json": json.dumps(manifest).encode(), **kept})


def unchanged(_: dict[str, Any]) -> None:
    """Leave the manifest as it is."""


def test_a_rewritten_artifact_still_loads(saved: Path, tmp_path: Path) -> None:
    """The tests below change one thing at a time of a file that is good otherwise."""
    assert loads_and_runs(rewritten(saved, tmp_path / "same.rammer", unchanged))


Edit = Callable[[Any, Any], object]
"""Changes an entry of a list or a dictionary, given both."""


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every list and dictionary in a JSON value with each of its entries' places."""
    places: Iterable[Any] = ()
    if isinstance(value, dict | list):
        places = value if isinstance(value, dict) else range(len(value))
    for place in list(places):
        yield value, place
        yield from entries(value[place])


def delete(value: Any, place: Any) -> None:
    """Leave an entry out."""
    del value[place]


def set_to(new: Any) -> Edit:
    """Write something else."""
    return lambda value, place: value.__setitem__(place, new)


def rename(value: Any, place: Any) -> None:
    """Give an entry another name, or put it at another place."""
    if isinstance(value, dict):
        value[f"{place}_"] = value.pop(place)
    else:
        value.append(value.pop(place))
        value.append(0)


def increase(value: Any, place: Any) -> None:
    """Write a number that is one larger, and a longer text or list."""
    old = value[place]
    if isinstance(old, dict):
        old["further"] = 0
    else:
        value[place] = old + {str: "_", list: [0]}.get(type(old), 1)


EDITS: dict[str, Edit] = {
    "delete": delete, "rename": rename, "increase": increase, "null": set_to(None),
    "text": set_to("x_"), "list": set_to([[]]), "dictionary": set_to({"a": 1}),
    "negative": set_to(-1), "huge": set_to(1 << 70), "fraction": set_to(0.5),
    "not a number": set_to(float("nan")), "false": set_to(False),
}  # fmt: skip


@pytest.mark.parametrize("kind", EDITS)
def test_edited_manifests(kind: str, saved: Path, tmp_path: Path) -> None:
    """Whatever is changed anywhere in the manifest is found, whatever it would have led to."""
    members = contents(saved)
    whole = members["manifest.json"]
    number = sum(1 for _ in entries(json.loads(whole)))
    assert number > 40
    for position in range(number):
        manifest = json.loads(whole)
        value, place = next(islice(entries(manifest), position, None))
        if isinstance(value, dict | list):
            EDITS[kind](value, place)
        edited = json.dumps(manifest).encode()
        assert edited != json.dumps(json.loads(whole)).encode()
        refusal(write_members(tmp_path / "edited.rammer", members | {"manifest.json": edited}))


def test_members_of_another_model(saved: Path, tmp_path: Path) -> None:
    """Each is whole, and none is taken for this model's."""
    with SMALL.build() as other:
        other.save(tmp_path / "other.rammer")
    members, others = contents(saved), contents(tmp_path / "other.rammer")
    for name in members:
        path = write_members(tmp_path / "mixed.rammer", members | {name: others[name]})
        if members[name] != others[name]:
            assert "was changed since it was compiled" in refusal(path)


def test_another_version(saved: Path, tmp_path: Path) -> None:
    """The versions found and expected are named."""
    path = rewritten(saved, tmp_path / "new.rammer", lambda m: m.update(version=99))
    assert "has format version 99: expected 4; compile the model again" in refusal(path)


def test_another_machine(saved: Path, tmp_path: Path) -> None:
    """Code for another processor family is not run."""
    path = rewritten(saved, tmp_path / "other.rammer", lambda m: m.update(machine="riscv64"))
    message = refusal(path)
    assert "was compiled for riscv64, and this machine is " + platform.machine() in message


def test_a_processor_that_lacks_an_instruction_set(saved: Path, tmp_path: Path) -> None:
    """Nor code that uses instructions which this one lacks."""
    path = rewritten(saved, tmp_path / "wide.rammer", lambda m: m["features"].append("avx4096"))
    assert "needs a processor with avx4096, which this one lacks" in refusal(path)


@pytest.mark.parametrize("member", ["code", "records", "starts", "constants", "items"])
def test_missing_members(member: str, saved: Path, tmp_path: Path) -> None:
    """Every part is needed."""
    refusal(rewritten(saved, tmp_path / "part.rammer", unchanged, **{member: None}))


def test_code_that_is_no_library(saved: Path, tmp_path: Path) -> None:
    """The system's loader refuses it."""
    path = rewritten(saved, tmp_path / "code.rammer", unchanged, code=b"no code")
    assert "its code cannot be loaded" in refusal(path)


def test_code_of_another_library(saved: Path, tmp_path: Path) -> None:
    """A library without our functions is not called."""
    library = next(Path(sys.modules["_ctypes"].__file__ or "").parent.glob("_ctypes*.so"))
    path = rewritten(saved, tmp_path / "code.rammer", unchanged, code=library.read_bytes())
    assert "its code lacks 'rammer_start'" in refusal(path)


def refused_saving(executable: Executable | GpuExecutable, path: Path, reason: str) -> None:
    """Require that saving fails for this reason and leaves nothing behind."""
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    with pytest.raises(ArtifactError) as caught:
        executable.save(path)
    assert str(caught.value) == f"cannot write '{path}': {reason}; choose another place"
    if path.parent.is_dir():
        assert sorted(path.parent.iterdir()) == before


def test_saving_where_there_is_no_space(executable: Executable) -> None:
    """A full device."""
    with pytest.raises(ArtifactError) as caught:
        executable.save("/dev/full")
    reason = "cannot write '/dev/full': No space left on device; choose another place"
    assert str(caught.value) == reason


def test_saving_fails_midway(executable: Executable, saved: Path, tmp_path: Path) -> None:
    """What was there before stays, and no part of the new file does."""
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
    """A directory, a directory that is missing, a name that is too long."""
    (tmp_path / "folder").mkdir()
    refused_saving(executable, tmp_path / "folder", "Is a directory")
    refused_saving(executable, tmp_path / "none" / "m.rammer", "No such file or directory")
    refused_saving(executable, tmp_path / ("m" * 300), "File name too long")


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory that this process may not write, also when it began as the superuser."""
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
    """The system's reason is given."""
    refused_saving(executable, read_only / "m.rammer", "Permission denied")


def test_saving_without_a_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only saving needs one: compiling and running went without."""
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
