"""Tests that the cache of compiled programs is used only if nothing has changed.

A cache that cannot be read or written does no harm.
"""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
import threading
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.compiler import cache as compile_cache
from rammer_mlir.compiler.backends import cpu
from rammer_mlir.compiler.cache import ARTIFACT, CompileCache
from rammer_mlir.compiler.caching import keys
from rammer_mlir.compiler.caching.cache_file import FILE, CacheFile, Kept
from rammer_mlir.compiler.caching.keys import compile_key
from rammer_mlir.compiler.models import Request, compile_any
from rammer_mlir.compiler.options import check_options
from rammer_mlir.engines import requirements
from rammer_mlir.errors import CacheWarning, RammerError
from rammer_mlir.frontends.onnx.source_folders import ModelWithData
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.policies import POLICIES, register_policy
from rammer_mlir.scheduling.policies.sequential import Sequential

if shutil.which("ld") is None and shutil.which("ld.lld") is None:
    pytest.skip("an entry holds a shared library: needs ld or ld.lld", allow_module_level=True)

DEVICES = Path(compile_cache.__file__).parents[1] / "scheduling" / "devices"


def product(seed: int = 0, size: int = 8) -> onnx.ModelProto:
    """Return a model ``y = x @ w`` with random weights, which ``seed`` determines.

    The weights are ``w [size, size]``.
    """
    w = np.random.default_rng(seed).standard_normal((size, size)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", size])],
        [numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a compile cache for this test alone; the cache stores even tiny programs."""
    monkeypatch.setenv(compile_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(compile_cache, "WORTH_SECONDS", 0.0)
    return tmp_path / "cache"


def compiled(model: onnx.ModelProto | Path | None = None, **options: Any) -> Executable:
    """Compile a model for two vEUs and an input ``x`` of 4x8 numbers.

    The model is by default that of ``product``.
    """
    options = {"num_veus": 2, "shapes": {"x": (4, 8)}, **options}
    found = rammer_mlir.compile(product() if model is None else model, **options)
    assert isinstance(found, Executable)
    return found


def was_found(executable: Executable) -> bool:
    return list(executable.stats["seconds"]) == ["cache"]


def entries(folder: Path) -> list[Kept]:
    return [each for each in CacheFile(folder, 0).kept() if each.level == ARTIFACT]


def edit(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute(statement, values)


def test_the_second_compilation_is_found(folder: Path) -> None:
    """A second compilation comes from the cache, with equal results and statistics."""
    first, second = compiled(), compiled()
    assert not was_found(first)
    assert was_found(second)
    assert len(entries(folder)) == 1
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_array_equal(second(x), first(x))
    assert second.summary == first.summary
    assert second.stats["arena_bytes"] == first.stats["arena_bytes"]
    assert second.signature == first.signature


def test_a_model_is_the_same_as_a_file_only_by_its_bytes(folder: Path, tmp_path: Path) -> None:
    """A moved model file finds its cache entry, since the key depends on the file's bytes only."""
    path = tmp_path / "product.onnx"
    path.write_bytes(product().SerializeToString())
    assert not was_found(compiled(path))
    moved = path.rename(tmp_path / "moved.onnx")
    assert was_found(compiled(moved))
    assert len(entries(folder)) == 1


CHANGES: dict[str, Callable[[], Executable]] = {
    "weights": lambda: compiled(product(seed=1)),
    "shapes": lambda: compiled(shapes={"x": (5, 8)}),
    "vEUs": lambda: compiled(num_veus=1),
    "policy": lambda: compiled(policy="sequential"),
    "costs": lambda: compiled(costs="a100"),
    "off": lambda: compiled(cache=False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_compiles_anew(folder: Path, change: str) -> None:
    compiled()
    assert not was_found(CHANGES[change]())
    assert len(entries(folder)) == (1 if change == "off" else 2)


def test_a_device_file_counts_by_its_figures(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    text = (DEVICES / "cpu.toml").read_text("utf-8")
    mine.write_text(text, "utf-8")
    assert not was_found(compiled(costs=str(mine)))
    assert was_found(compiled(costs=str(mine)))
    mine.write_text(text + "\n# looked at again\n", "utf-8")
    assert was_found(compiled(costs=str(mine)))
    mine.write_text(text.replace("barrier_seconds = 2.5e-07", "barrier_seconds = 3e-07"), "utf-8")
    assert not was_found(compiled(costs=str(mine)))


def test_a_device_file_may_change_between_the_sizes_of_a_model(
    folder: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.toml"
    text = (DEVICES / "cpu.toml").read_text("utf-8")
    mine.write_text(text, "utf-8")
    with rammer_mlir.compile(product(), costs=str(mine), num_veus=2) as opened:
        opened.run({"x": np.ones((2, 8), np.float32)})
        mine.write_text(
            text.replace("barrier_seconds = 2.5e-07", "barrier_seconds = 3e-07"), "utf-8"
        )
        opened.run({"x": np.ones((4, 8), np.float32)})
        assert was_found(compiled(costs=str(mine)))
    mine.write_text(text, "utf-8")
    assert not was_found(compiled(costs=str(mine))), "it was compiled for the changed file"


def test_external_data_counts(folder: Path, tmp_path: Path) -> None:
    """A change of the weights in an external data file compiles the model again."""
    path = tmp_path / "product.onnx"
    onnx.save(
        product(size=32), path, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    shapes = {"x": (4, 32)}
    assert not was_found(compiled(path, shapes=shapes))
    assert was_found(compiled(path, shapes=shapes))
    weights = np.fromfile(tmp_path / "w.bin", np.float32)
    (2 * weights).tofile(tmp_path / "w.bin")
    changed = compiled(path, shapes=shapes)
    assert not was_found(changed)
    x = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)
    expected = x.astype(np.float64) @ (2.0 * weights.reshape(32, 32).astype(np.float64))
    np.testing.assert_allclose(changed(x), expected, rtol=1e-4, atol=1e-5)


def test_the_compiler_itself_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    monkeypatch.setattr(keys, "compiler_digest", lambda: "another version")
    assert not was_found(compiled())


def test_another_processor_has_entries_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    monkeypatch.setattr(keys, "cpu_features", lambda: ("sse2",))
    assert not was_found(compiled())


def test_instructions_that_linux_does_not_list_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM's description of the processor is a part of the key, with each of its features."""
    compiled()
    machine = replace(keys.host_machine(), features="+another")
    monkeypatch.setattr(keys, "host_machine", lambda: machine)
    assert not was_found(compiled())


def test_the_usable_cores_count_if_no_veus_are_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No level of the cache gives a program that was compiled for another number of cores."""
    for cores in (1, 2):
        monkeypatch.setattr(cpu, "usable_cores", lambda cores=cores: cores)
        found = compiled(num_veus=None)
        assert (found.num_veus, "cache" in found.stats) == (cores, False)
    assert was_found(compiled(num_veus=None))


def test_the_programs_of_an_engine_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs for the engine ``onnxruntime`` are found again, for the same version of it."""
    options: dict[str, Any] = {"offload": "onnxruntime", "offload_choice": "always"}
    assert not was_found(compiled(**options))
    again = compiled(**options)
    assert was_found(again)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    (weights,) = product().graph.initializer
    np.testing.assert_allclose(again(x), x @ numpy_helper.to_array(weights), rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(requirements, "installed_versions", str)
    assert not was_found(compiled(**options))


def test_policies_of_the_users_are_not_kept(folder: Path) -> None:
    """Programs that a user's policy has scheduled are not stored.

    The source of the policy may change under the same name.
    """

    class Mine(Sequential):
        name: ClassVar[str] = "mine"

    register_policy(Mine())
    try:
        compiled(policy="mine")
        assert not was_found(compiled(policy="mine"))
    finally:
        POLICIES.unregister("mine")
    assert entries(folder) == []


@pytest.mark.parametrize("damage", [b"", b"PK nothing", None])
def test_a_damaged_entry_is_compiled_again(folder: Path, damage: bytes | None) -> None:
    expected = compiled()
    (entry,) = entries(folder)
    kept = CacheFile(folder, 0).find(ARTIFACT, entry.key)
    assert kept is not None
    content = bytearray(kept.content)
    content[len(content) // 2] ^= 0xFF
    edit(folder, "UPDATE entries SET content = ?", bytes(content) if damage is None else damage)
    again = compiled()
    assert not was_found(again)
    assert was_found(compiled())
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_array_equal(again(x), expected(x))


@pytest.mark.parametrize("damage", ["not a database", "torn", "other tables"])
def test_a_damaged_file_is_made_anew(folder: Path, damage: str) -> None:
    """A damaged cache file is replaced after one warning, and the cache works again."""
    compiled()
    path = folder / FILE
    if damage == "not a database":
        path.write_bytes(b"nothing of the kind" * 1000)
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        edit(folder, "DROP TABLE entries")
    with pytest.warns(CacheWarning, match="made anew") as caught:
        assert not was_found(compiled())
    assert len([w for w in caught if w.category is CacheWarning]) == 1
    assert was_found(compiled())


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the cache's folder cannot be created, models compile without a cache.

    There is a single warning.
    """
    monkeypatch.setattr(compile_cache, "WORTH_SECONDS", 0.0)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(compile_cache.FOLDER_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning, match="cannot be written") as caught:
        for _ in range(2):
            assert not was_found(compiled())
    assert len([w for w in caught if w.category is CacheWarning]) == 1


def test_a_full_disk(folder: Path) -> None:
    """If writing an entry fails midway, there is one warning, and old entries are still found."""
    compiled()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = CacheFile(folder, 1 << 30)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.warns(CacheWarning, match="goes on") as caught:
            assert not file.keep(ARTIFACT, "large", b"", bulk=[memoryview(bytes(4 << 20))])
            assert not file.keep(ARTIFACT, "large", b"", bulk=[memoryview(bytes(4 << 20))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert len([w for w in caught if w.category is CacheWarning]) == 1
    assert was_found(compiled())
    assert file.keep(ARTIFACT, "large", b"", bulk=[memoryview(bytes(4 << 20))])


def test_a_file_that_is_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside ``kept_open``, several look-ups of a thread open the cache file only once.

    Another thread opens the file for itself; a look-up after ``kept_open`` opens it again.
    """
    file = CacheFile(tmp_path, 1 << 30)
    assert file.keep(ARTIFACT, "a", b"content")
    opened: list[int] = []

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(threading.get_ident())
        return connects(*arguments, **options)

    connects = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    with file.kept_open():
        for _ in range(3):
            entry = file.find(ARTIFACT, "a")
            assert entry is not None and entry.content == b"content"
        other = threading.Thread(target=lambda: file.find(ARTIFACT, "a"))
        other.start()
        other.join()
    assert len(opened) == 2 and len(set(opened)) == 2
    assert file.find(ARTIFACT, "a") is not None
    assert len(opened) == 3


def test_a_file_that_is_damaged_while_it_is_open(tmp_path: Path) -> None:
    """A cache file that is damaged while a thread keeps it open is replaced for this thread too."""
    file = CacheFile(tmp_path, 1 << 30)
    assert file.keep(ARTIFACT, "a", b"content")
    with file.kept_open():
        assert file.find(ARTIFACT, "a") is not None
        with pytest.warns(CacheWarning, match="made anew"):
            edit(tmp_path, "DROP TABLE entries")
            assert file.find(ARTIFACT, "a") is None
        assert file.keep(ARTIFACT, "b", b"content")
        assert file.find(ARTIFACT, "b") is not None


def test_a_file_that_may_only_be_read(folder: Path) -> None:
    """A read-only cache finds its entries and gives no warning."""
    compiled()
    (entry,) = entries(folder)
    folder.chmod(0o500)
    (folder / FILE).chmod(0o400)
    try:
        assert CacheFile(folder, 1 << 30).find(ARTIFACT, entry.key) is not None
    finally:
        folder.chmod(0o700)


def test_several_writers(tmp_path: Path) -> None:
    """Several threads can store entries in one cache file at the same time."""
    problems: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            file = CacheFile(tmp_path, 1 << 30)
            for number in range(20):
                assert file.keep(ARTIFACT, f"{writer}-{number}", bytes([writer]) * 10_000)
        except BaseException as error:
            problems.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert not problems
    file = CacheFile(tmp_path, 1 << 30)
    assert len(file.kept()) == 80
    for writer in range(4):
        found = file.find(ARTIFACT, f"{writer}-7")
        assert found is not None and found.content == bytes([writer]) * 10_000


def test_the_file_stays_within_its_bound(tmp_path: Path) -> None:
    """The least recently used entries are removed, so that all entries together fit the limit.

    An entry above the limit is not stored.
    """
    file = CacheFile(tmp_path, 3 << 20)
    for number in range(30):
        assert file.keep(ARTIFACT, str(number), b"", bulk=[memoryview(bytes(1 << 20))])
        file.find(ARTIFACT, "0")
    assert {each.key for each in file.kept()} == {"0", "28", "29"}
    assert (tmp_path / FILE).stat().st_size < 4 << 20
    assert not file.keep(ARTIFACT, "huge", b"", bulk=[memoryview(bytes(4 << 20))])
    assert len(file.kept()) == 3


def test_without_a_linker_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    def find_nothing(_: str) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", find_nothing)
    assert not was_found(compiled())
    assert entries(folder) == []


def test_small_programs_are_not_worth_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache, "WORTH_SECONDS", 1e9)
    compiled()
    assert not folder.exists()


def test_what_was_not_used_for_longest_goes(folder: Path) -> None:
    """Of three programs in a cache with room for two, the least recently used one is removed."""
    cache = CompileCache(folder, 1 << 40)
    options = check_options("cpu", policy="sequential", num_veus=1)
    found: list[str] = []
    for seed in range(3):
        executable = compiled(product(seed), cache=False)
        key = compile_key(product(seed), options, None)
        assert key is not None
        found.append(key)
        if seed == 2:
            size = entries(folder)[0].num_bytes
            cache = CompileCache(folder, 2 * size + size // 2)
        cache.keep(key, executable)
        if seed == 1:
            assert cache.find(found[0]) is not None
    assert [cache.find(key) is not None for key in found] == [True, False, True]


def test_a_size_that_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compile_cache.BYTES_VARIABLE, "4GB")
    with pytest.raises(RammerError, match=r"^RAMMER_CACHE_BYTES: expected a number of bytes"):
        compiled()


def test_a_model_that_is_missing_is_refused_as_ever(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RammerError, match="cannot read"):
        compiled(tmp_path / "missing.onnx")


def test_numbers_of_numpy(folder: Path) -> None:
    """Options given as NumPy integers have the same key as Python integers."""
    compiled()
    assert was_found(compiled(shapes={"x": np.array([4, 8])}, num_veus=np.int64(2)))


def test_a_folder_that_may_not_be_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    key = compile_key(
        product(), check_options("cpu", policy="sequential", num_veus=1), {"x": (4, 8)}
    )
    assert key is not None
    with pytest.warns(CacheWarning, match="cannot be read"):
        assert CompileCache(folder).find(key) is None


def test_every_source_of_the_compiler_is_in_the_key() -> None:
    """The key depends on all source files of the compiler, including MLIR and TOML files.

    It does not depend on the benchmarks.
    """
    package = Path(compile_cache.__file__).parents[1]
    names = {str(file.relative_to(package)) for file in keys.source_files(package)}
    assert {"lowering/cpu/runtime.mlir", "scheduling/devices/a100.toml", "errors.py"} <= names
    assert "passes/rtask_tile.py" in names
    assert not any(name.startswith("benchmarks") or name.endswith(".pyc") for name in names)


def test_weights_that_change_between_specializations_are_not_mistaken(folder: Path) -> None:
    """A specialization that is compiled after a change of the weights is not found without it."""
    model = product(size=64)
    weights = numpy_helper.to_array(model.graph.initializer[0]).copy()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    source = ModelWithData(model, {"w": weights.data.cast("B")})

    def results(compiled: Any, rows: int) -> Any:
        return compiled.run({"x": np.ones((rows, 64), np.float32)})["y"]

    def compiled() -> Any:
        return compile_any(Request(source, check_options("cpu", num_veus=1)))

    with compiled() as first:
        once = results(first, 2)
        weights *= 2
        np.testing.assert_allclose(results(first, 3)[:2], 2 * once, rtol=1e-5, atol=1e-5)
    weights /= 2
    with compiled() as second:
        np.testing.assert_allclose(results(second, 3)[:2], once, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "damage",
    ["bulk = 1 << 52", "bulk = -1000", "content = 'text'", "identity = 3", "parts = '{'"],
)
def test_damaged_values_of_an_entry_count_as_missing(folder: Path, damage: str) -> None:
    file = CacheFile(folder, 1 << 30)
    file.keep(ARTIFACT, "k", b"abc", bulk=(memoryview(b"x" * 100),), parts={"a": "b"})
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute(f"UPDATE entries SET {damage}")
    if "parts" in damage:
        assert file.nearest(ARTIFACT, {"a": "b"}) is None
        assert file.find(ARTIFACT, "k") is not None
    else:
        assert file.find(ARTIFACT, "k") is None
        assert not file.kept()


def test_a_model_that_changes_during_its_compilation_is_not_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is hashed before it is read: another program may write it in between."""
    path = tmp_path / "model.onnx"
    onnx.save(product(0), path)
    load = Request.load

    def changed(request: Request) -> Any:
        onnx.save(product(1), path)
        return load(request)

    with monkeypatch.context() as patch:
        patch.setattr(Request, "load", changed)
        rammer_mlir.compile(path, shapes={"x": (2, 8)}, num_veus=1).close()
    onnx.save(product(0), path)
    with rammer_mlir.compile(path, shapes={"x": (2, 8)}, num_veus=1) as found:
        x = np.ones((2, 8), np.float32)
        weights = numpy_helper.to_array(product(0).graph.initializer[0])
        np.testing.assert_allclose(found.run({"x": x})["y"], x @ weights, rtol=1e-5)


def test_entries_outlive_an_unusable_temporary_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that cannot be loaded here and now is compiled anew; its entry stays."""
    rammer_mlir.compile(product(), shapes={"x": (2, 8)}, num_veus=1).close()
    kept = {entry.key for entry in CacheFile(folder, 0).kept()}
    assert kept
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(folder / "missing"))
        with rammer_mlir.compile(product(), shapes={"x": (2, 8)}, num_veus=1) as made:
            assert "cache" not in made.stats
    assert {entry.key for entry in CacheFile(folder, 0).kept()} == kept
