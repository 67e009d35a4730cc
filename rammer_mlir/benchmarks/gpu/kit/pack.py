"""Compile all cases of a kit into a folder, several models at a time."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx

import rammer_mlir
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.gpu.kit import probe
from rammer_mlir.benchmarks.gpu.kit.cases import (
    WAYS,
    Network,
    Product,
    Relay,
    Subject,
    Way,
    cases_of,
    program_name,
)
from rammer_mlir.benchmarks.gpu.kit.manifest import (
    ARRAYS,
    GRAPHS,
    PROBE,
    PROGRAMS,
    Kit,
    Model,
    ProgramFacts,
    store_of,
    write_kit,
)
from rammer_mlir.benchmarks.gpu.kit.programs import read_program, write_program
from rammer_mlir.benchmarks.gpu.kit.sources import (
    network_feeds,
    network_model,
    product_feeds,
    product_model,
)
from rammer_mlir.benchmarks.gpu.kit.store import Array, Reference, Store, seeded
from rammer_mlir.benchmarks.gpu.kit.torch_graph import describe_graph
from rammer_mlir.benchmarks.machine import machine
from rammer_mlir.benchmarks.relay import Relay as RelayProgram
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import CheckedOptions, check_options
from rammer_mlir.compiler.shared_code import KnownCode
from rammer_mlir.compiler.weight_recipes import Recipe
from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.frontends.onnx import ImportedModel, import_model
from rammer_mlir.lowering.targets import find_gpu
from rammer_mlir.programs.gpu_image import GpuCode, GpuImage
from rammer_mlir.runtime.artifact import Artifact

_RELAY_INPUT = 0.5

_LEFT_OUT = ("__pycache__", "results")
"""Folders of the package that are not copied into a kit."""

_MAIN = """import sys

from rammer_mlir.benchmarks.gpu.kit.__main__ import main_of

sys.exit(main_of(__file__))
"""
"""End of the source of the module that ``python FOLDER`` executes."""


@dataclass(frozen=True)
class Packed:
    """A model whose files are in the kit.

    ``programs`` has, by program name, the numbers of a program that are known without a GPU, such
    as its predicted seconds and its operations.
    """

    model: Model
    programs: dict[str, ProgramFacts]


@dataclass(frozen=True)
class _Task:
    folder: Path
    target: str
    subject: Subject


def pack(
    folder: Path, target: str, subjects: Sequence[Subject], *, megabytes: float, jobs: int
) -> Kit:
    """Compile a kit's models, write its files to a folder, and return its table of contents.

    Args:
        folder: destination; it has to be empty or absent.
        target: a GPU, such as ``nvvm:sm_90``.
        subjects: the models of the kit, with the ways to run them.
        megabytes: upper bound of the kit's size, in units of 10^6 bytes.
        jobs: number of processes that compile.

    Raises:
        OptionError: if the folder is not empty, or the kit exceeds ``megabytes``.
        RammerError: if a model cannot be compiled for the target.
    """
    find_gpu(target)  # refuses others before anything is written
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"'{folder}': expected an empty folder or none; remove it")
    # Packed beside the destination and renamed at the end: a kit is complete or absent.
    temporary = folder.parent / f".{folder.name}.packing"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        kit = _write(temporary, target, subjects, jobs)
        size = _bytes_of(temporary)
        if size > megabytes * 1e6:
            raise OptionError(
                f"kit: expected at most {megabytes:g} MB, found {size / 1e6:.1f}; allow more, or "
                "name fewer models"
            )
        if folder.exists():
            folder.rmdir()
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return kit


def _write(folder: Path, target: str, subjects: Sequence[Subject], jobs: int) -> Kit:
    for name in (ARRAYS, PROGRAMS, GRAPHS):
        (folder / name).mkdir()
    (folder / PROBE).write_bytes(probe.compile_probe(target))
    _carry_package(folder)
    tasks = [_Task(folder, target, subject) for subject in subjects]
    found = dict(zip((s.name for s in subjects), _all(tasks, jobs), strict=True))
    models = {name: packed.model for name, packed in found.items()}
    programs = {name: facts for packed in found.values() for name, facts in packed.programs.items()}
    kit = Kit(target, dict(machine()), cases_of(subjects), models, programs)
    write_kit(folder, kit)
    return kit


def _all(tasks: Sequence[_Task], jobs: int) -> list[Packed]:
    """Compile and write the models of all tasks in ``jobs`` processes; return their descriptions.

    A task is a model, the kit's folder and the target. The longest compilations begin first; the
    results are in the order of ``tasks``.
    """
    if jobs == 1:
        return [pack_subject(task) for task in tasks]
    order = sorted(range(len(tasks)), key=lambda n: -_effort(tasks[n].subject))
    found: dict[int, Packed] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as executor:
        futures = {n: executor.submit(pack_subject, tasks[n]) for n in order}
        for n, future in futures.items():
            found[n] = future.result()
    return [found[n] for n in range(len(tasks))]


def _effort(subject: Subject) -> float:
    """Return an estimate of a model's compile time, in an arbitrary unit.

    The estimate depends on the model's size and on the number of programs that are compiled from
    it.
    """
    is_network = isinstance(subject.source, Network) and subject.source.scale == "full"
    return len(subject.ways) * (10.0 if is_network else 1.0) * (1 + subject.name.startswith("res"))


def pack_subject(task: _Task) -> Packed:
    """Write the files of a task's model: its arrays, its programs, and its graph for PyTorch.

    Return the references to the arrays, and the numbers of each program. A task is a model, the
    kit's folder and the target.
    """
    begin = time.perf_counter()
    store = store_of(task.folder)
    source = task.subject.source
    if isinstance(source, Relay):
        packed = _pack_relay(task, source, store)
    elif isinstance(source, Product):
        packed = _pack_product(task, source, store)
    else:
        packed = _pack_network(task, source, store)
    seconds = time.perf_counter() - begin
    print(f"{task.subject.name}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return packed


def _pack_relay(task: _Task, relay: Relay, store: Store) -> Packed:
    executable = RelayProgram(relay.num_veus, relay.steps).compile(task.target)
    name = program_name(task.subject, task.subject.ways[0])
    write_program(task.folder / PROGRAMS, name, executable.artifact(), {}, {})
    feeds = {"x": store.put(np.full(1, _RELAY_INPUT, np.float32))}
    last = np.full(1, _RELAY_INPUT + relay.steps, np.float32)
    expected = {"y": store.put(last)} if relay.steps else {}
    facts = ProgramFacts(0.0, relay.steps, 8, relay.num_veus)
    return Packed(Model(feeds, expected), {name: facts})


def _pack_product(task: _Task, product: Product, store: Store) -> Packed:
    imported = import_model(product_model(product))
    programs = _compile_all(task, imported, {}, store)
    return Packed(Model(product_feeds(product), product=product.precision), programs)


def _pack_network(task: _Task, network: Network, store: Store) -> Packed:
    source = network_model(network)
    imported = import_model(source.model)
    seeds = {_content(s.array()): seeded(s) for s in source.seeds.values()}
    programs = _compile_all(task, imported, seeds, store)
    feeds = network_feeds(source.model, store)
    values = {name: store.get(reference) for name, reference in feeds.items()}
    expected = {n: store.put(v) for n, v in OnnxRuntime(source.model).run(values).items()}
    graph = ""
    if task.subject.baselines:
        graph = f"{task.subject.name}.json"
        _write_graph(task.folder / GRAPHS / graph, source.model, seeds, store)
    return Packed(Model(feeds, expected, graph), programs)


def _write_graph(
    path: Path, model: onnx.ModelProto, seeds: Mapping[bytes, Reference], store: Store
) -> None:
    def put(name: str, array: Array) -> Reference:
        del name
        return seeds.get(_content(array)) or store.put(array)

    path.write_text(json.dumps(describe_graph(model, put).to_json()), encoding="utf-8")


def _content(array: Array) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def options_of(target: str, subject: Subject, way: Way) -> CheckedOptions:
    """Return the options to compile ``subject`` for ``target``, a GPU such as ``nvvm:sm_90``.

    ``way`` has the options of the schedule.
    """
    source = subject.source
    is_tf32 = isinstance(source, Product) and source.precision == "tf32"
    return check_options(
        f"{target}+tf32" if is_tf32 else target, policy=way.policy, per_operator=way.per_operator,
        num_veus=subject.num_veus,
    )  # fmt: skip


def _compile_all(
    task: _Task, imported: ImportedModel, seeds: Mapping[bytes, Reference], store: Store
) -> dict[str, ProgramFacts]:
    """Compile a task's model with each set of options in ``ways``, and write the programs.

    Return, by program name, the numbers of a program that are known without a GPU. Equal code is
    generated once. ``imported`` is the model. ``seeds`` has the weights that are computed from
    seeds: it maps the bytes of a weight to the weight's reference. Other weights are written to
    ``store``.
    """
    known = KnownCode[GpuCode]()
    found: dict[str, ProgramFacts] = {}
    for each in task.subject.ways:
        way = WAYS[each]
        options = options_of(task.target, task.subject, way)
        compilation = Compilation.of_import(imported, options, time.perf_counter())
        compilation.use_known_kernels(known)
        predicted = 0.0 if way.per_operator else compilation.predict()[0].seconds
        code = compilation.code()
        assert isinstance(code.image, GpuImage)
        name = program_name(task.subject, each)
        artifact = Artifact(code.image, code.binary, code.stats)
        references = _references(compilation.recipes, imported, seeds, store)
        write_program(task.folder / PROGRAMS, name, artifact, compilation.recipes, references)
        _check_weights(task.folder, name, store, code.image)
        signature = code.image.signature
        tensors = sum(spec.num_bytes for spec in (*signature.inputs, *signature.outputs))
        found[name] = ProgramFacts(
            predicted, int(code.stats["operations"]), tensors + code.image.constants.nbytes,
            code.image.num_veus,
        )  # fmt: skip
    return found


def _references(
    recipes: Mapping[int, Recipe],
    imported: ImportedModel,
    seeds: Mapping[bytes, Reference],
    store: Store,
) -> dict[str, Reference]:
    names = {name for recipe in recipes.values() for name in recipe.names()}
    arrays = {name: imported.constants[name] for name in sorted(names)}
    return {n: seeds.get(_content(array)) or store.put(array) for n, array in arrays.items()}


def _check_weights(folder: Path, name: str, store: Store, image: GpuImage) -> None:
    """Read program ``name`` back; raise RammerError if its weights are not those of ``image``."""
    read = read_program(folder / PROGRAMS, name, store)
    found, expected = (b"".join(i.constants.pieces) for i in (read.image, image))
    if found != expected:
        raise RammerError(
            f"program '{name}': expected the weights that it was compiled with, found others after "
            "they were read back"
        )


def _carry_package(folder: Path) -> None:
    """Copy the package ``rammer_mlir`` into the kit ``folder``.

    Also write the module ``__main__.py``, which ``python FOLDER`` executes.
    """
    root = Path(rammer_mlir.__file__).parent
    ignore: Callable[[str, list[str]], set[str]] = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(root, folder / root.name, ignore=ignore)
    (folder / "__main__.py").write_text(_MAIN, encoding="utf-8")


def _bytes_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
