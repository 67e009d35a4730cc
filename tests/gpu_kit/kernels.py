"""The models and relays of a small kit, and their code for the emulator.

The stand-in for CUDA's driver runs this code.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rammer_mlir.benchmarks.gpu.kit.cases import (
    BASELINES,
    EXACT,
    OF_PRECISION,
    SANITIZERS,
    WAYS,
    Network,
    Precision,
    Product,
    Relay,
    Subject,
    program_name,
)
from rammer_mlir.benchmarks.gpu.kit.manifest import PROGRAMS, store_of
from rammer_mlir.benchmarks.gpu.kit.pack import options_of
from rammer_mlir.benchmarks.gpu.kit.programs import read_program
from rammer_mlir.benchmarks.gpu.kit.sources import network_model, product_model
from rammer_mlir.benchmarks.relay import Relay as RelayProgram
from rammer_mlir.compiler.backends.backend import Code
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.frontends.onnx import import_model

TARGET = "nvvm:sm_90"


WAYS_OF_CHAIN = ("wavefront", "per-operator")


def _product(precision: Precision) -> Subject:
    source = Product(5, 24, 40, precision)
    tolerance = OF_PRECISION[precision]
    return Subject(
        f"product-{precision}", source, baselines=("graph",), tolerance=tolerance, num_veus=2
    )


SUBJECTS = (
    Subject("one-element", Network("one_element", "full"), sanitizers=SANITIZERS[:2], num_veus=2),
    Subject("empty", Relay(2, 0), tolerance=EXACT),
    Subject("relay-2", Relay(2, 8), tolerance=EXACT),
    Subject("relay-16", Relay(16, 32), tolerance=EXACT),
    *(_product(precision) for precision in ("tf32", "f16")),
    Subject("chain", Network("mlp", "small"), WAYS_OF_CHAIN, BASELINES[:1], num_veus=3),
)


RELAY_132 = Subject("relay-132", Relay(132, 133), tolerance=EXACT)


def emulated(subject: Subject) -> Iterator[tuple[str, Code]]:
    """Yield the name of each program of a model or relay, and its code for the emulator."""
    for each in subject.ways:
        name = program_name(subject, each)
        if isinstance(subject.source, Relay):
            relay = RelayProgram(subject.source.num_veus, subject.source.steps)
            options = check_options(TARGET, num_veus=relay.num_veus).emulated()
            yield name, relay.code(options)
            continue
        model = (
            product_model(subject.source)
            if isinstance(subject.source, Product)
            else network_model(subject.source).model
        )
        options = options_of(TARGET, subject, WAYS[each]).emulated()
        imported = import_model(model)
        yield name, Compilation.of_import(imported, options, time.perf_counter()).code()


def write_kernels(kit: Path, folder: Path, subjects: Sequence[Subject] = SUBJECTS) -> None:
    """Write, for each program of the kit, the code that the emulator executes in its place.

    Each program gives two files in ``folder``: pickled code for the emulator, and the program's
    cubin, by which the stand-in for CUDA's driver finds the code.
    """
    folder.mkdir()
    for subject in subjects:
        for name, code in emulated(subject):
            cubin = read_program(kit / PROGRAMS, name, store_of(kit)).code
            held = {"kernel": code.kernel, "object": code.binary, "behavior": "run"}
            path = folder / f"{hashlib.sha256(cubin).hexdigest()[:16]}.pickle"
            path.write_bytes(pickle.dumps(held))
            path.with_suffix(".cubin").write_bytes(cubin)


def let_misbehave(kit: Path, folder: Path, name: str, behavior: str) -> None:
    """Let the kit's program ``name`` hang, crash, or write no results, when it is run.

    ``behavior`` is "hang", "crash" or, for no results, "wrong". It is stored in ``folder``, with
    the program's code for the emulator.
    """
    cubin = read_program(kit / PROGRAMS, name, store_of(kit)).code
    path = folder / f"{hashlib.sha256(cubin).hexdigest()[:16]}.pickle"
    held = pickle.loads(path.read_bytes())
    path.write_bytes(pickle.dumps({**held, "behavior": behavior}))
