"""Define the cases of a kit, in the order in which they run: small and reliable cases first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rammer_mlir.benchmarks.comparison import ABSOLUTE, RELATIVE

if TYPE_CHECKING:  # models import onnx, which is not on the machine with the GPU
    from rammer_mlir.benchmarks.models.scale import Scale

Kind = Literal["machine", "program", "probe", "torch", "sanitizer"]

Precision = Literal["f32", "tf32", "f16"]


@dataclass(frozen=True)
class Tolerance:
    """Tolerated error of an element of an output.

    It is ``relative`` times the magnitude of the expected element, plus ``absolute`` times the
    largest magnitude of any element of the output.
    """

    relative: float = RELATIVE
    absolute: float = ABSOLUTE


EXACT = Tolerance(0.0, 0.0)

OF_PRECISION: dict[Precision, Tolerance] = {
    "f32": Tolerance(),
    # 11 bits of precision in the factors; in f16, in the results.
    "tf32": Tolerance(5e-3, 1e-3),
    "f16": Tolerance(2e-3, 1e-3),
}


@dataclass(frozen=True)
class Relay:
    """A program that measures the time of a wait: ``steps`` rTasks, each dependent on the previous.

    The rTasks alternate between ``num_veus`` vEUs, so that each rTask waits for another vEU.
    """

    num_veus: int
    steps: int


@dataclass(frozen=True)
class Product:
    """The matrix product ``x [rows, inner] @ w [inner, columns]`` with x and w as inputs."""

    rows: int
    inner: int
    columns: int
    precision: Precision


@dataclass(frozen=True)
class Network:
    """A benchmark model with weights from seeds.

    ``model`` is its name; ``scale`` is "full", or "small" for reduced sizes.
    """

    model: str
    scale: Scale


Source = Relay | Product | Network


@dataclass(frozen=True)
class Way:
    """Options that a model is compiled with.

    Attributes:
        policy: name of the scheduling policy.
        per_operator: whether each operator is a separate launch; if not, the model is one launch.
    """

    policy: str = "wavefront"
    per_operator: bool = False


WAYS: dict[str, Way] = {
    "wavefront": Way("wavefront"),
    "list": Way("list"),
    "sequential": Way("sequential"),
    "per-operator": Way("sequential", per_operator=True),
}
"""Options to compile a model with, by the name of the way.

``per-operator`` is the baseline of our own rKernels: a graph with a launch of each operator.
"""

BASELINES = ("eager", "graph", "compiled")
"""Ways in which PyTorch runs a model.

They are: operator by operator, in a CUDA graph, and by ``torch.compile``.
"""

SANITIZERS = ("memcheck", "racecheck", "synccheck")


@dataclass(frozen=True)
class Subject:
    """A model of the kit, with the ways to compile and run the model.

    Attributes:
        name: name of the model.
        source: description of the model: a relay, a product or a network.
        ways: compiler options of the model's programs, keys of ``WAYS``.
        baselines: the ways in which PyTorch runs the model, elements of ``BASELINES``.
        tolerance: tolerated error of the model's outputs.
        sanitizers: tools that check the program of the first of ``ways``, elements of
            ``SANITIZERS``.
        limit: time limit of a case in seconds.
        num_veus: number of vEUs of the programs; None for the number of multiprocessors. A relay's
            own number takes precedence.
    """

    name: str
    source: Source
    ways: Sequence[str] = ("wavefront",)
    baselines: Sequence[str] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    sanitizers: Sequence[str] = ()
    limit: float = 60.0
    num_veus: int | None = None


def _relay(num_veus: int, steps: int, sanitizers: Sequence[str] = ()) -> Subject:
    name = f"relay-{num_veus}" if steps else "empty"
    return Subject(name, Relay(num_veus, steps), ("wavefront",), (), EXACT, sanitizers)


def _product(rows: int, inner: int, columns: int, precision: Precision) -> Subject:
    shape = f"{rows}x{inner}x{columns}"
    tolerance = OF_PRECISION[precision]
    baselines = ("graph",)
    source = Product(rows, inner, columns, precision)
    return Subject(f"product-{shape}-{precision}", source, ("wavefront",), baselines, tolerance)


def _network(name: str, model: str, scale: Scale = "full", ways: Sequence[str] = ()) -> Subject:
    return Subject(name, Network(model, scale), ways or tuple(WAYS), BASELINES)


STEPS = 256
"""Number of steps of a relay that is timed."""

SUBJECTS: tuple[Subject, ...] = (
    Subject("one-element", Network("one_element", "full"), sanitizers=SANITIZERS),
    Subject("chain", Network("mlp", "small"), sanitizers=SANITIZERS),
    _relay(2, 0),
    _relay(1, STEPS),
    _relay(2, STEPS, SANITIZERS),
    _relay(16, STEPS),
    _relay(132, 2 * 132),
    Subject("attention-small", Network("attention", "small"), sanitizers=SANITIZERS),
    *(_product(1, 4096, 4096, kind) for kind in ("f32", "f16")),
    *(_product(8, 4096, 4096, kind) for kind in ("f32", "f16")),
    *(_product(1024, 1024, 1024, kind) for kind in ("f32", "tf32", "f16")),
    *(_product(4096, 4096, 4096, kind) for kind in ("f32", "tf32", "f16")),
    _network("squeezenet", "squeezenet"),
    _network("resnet50", "light_resnet50", ways=("wavefront", "sequential", "per-operator")),
    _network("encoder", "transformer_4_layers"),
    _network("nas-cell", "nas_cell"),
    _network("lstm", "lstm_bidirectional"),
)  # fmt: skip
"""All models of a kit."""


@dataclass(frozen=True)
class Case:
    """A measurement or check that runs in its own process and gives one line of the results.

    Attributes:
        name: name of the case.
        kind: selects the function in ``child`` that executes the case.
        limit: seconds after which the case counts as hung.
        subject: name of the model; empty if there is none.
        way: for a program, the key of its options in ``WAYS``; for PyTorch, an element of
            ``BASELINES``; for a sanitizer, its name; else empty.
        program: name of the program; empty if there is none.
        tolerance: tolerated error of the outputs.
    """

    name: str
    kind: Kind
    limit: float = 60.0
    subject: str = ""
    way: str = ""
    program: str = ""
    tolerance: Tolerance = field(default_factory=Tolerance)


_COMPILED_LIMIT, _SANITIZER_LIMIT = 240.0, 120.0
"""Time limits in seconds: of a model that ``torch.compile`` compiles, and of a sanitizer's case.

``torch.compile`` runs a compiler, and a sanitizer slows kernels down.
"""


def program_name(subject: Subject, way: str) -> str:
    """Return the name of the program of a model compiled with the options ``WAYS[way]``."""
    return f"{subject.name}.{way}"


def cases_of(subjects: Sequence[Subject]) -> list[Case]:
    """Return all cases in the order in which they run.

    The order is:
    - the case "machine", which describes the GPU and the software;
    - the programs of subjects without baselines;
    - the probe, which measures properties of the GPU;
    - the programs of the other subjects;
    - all baselines, then all sanitizers.
    """
    small = [subject for subject in subjects if not subject.baselines]
    large = [subject for subject in subjects if subject.baselines]
    return [
        Case("machine", "machine"),
        *(case for subject in small for case in _programs(subject)),
        Case("probe", "probe"),
        *(case for subject in large for case in _programs(subject)),
        *(case for subject in subjects for case in _baselines(subject)),
        *(case for subject in subjects for case in _sanitized(subject)),
    ]


def _programs(subject: Subject) -> Iterator[Case]:
    for way in subject.ways:
        name = program_name(subject, way)
        yield Case(name, "program", subject.limit, subject.name, way, name, subject.tolerance)


def _baselines(subject: Subject) -> Iterator[Case]:
    for way in subject.baselines:
        limit = _COMPILED_LIMIT if way == "compiled" else subject.limit
        name = f"{subject.name}.torch-{way}"
        yield Case(name, "torch", limit, subject.name, way, "", subject.tolerance)


def _sanitized(subject: Subject) -> Iterator[Case]:
    for tool in subject.sanitizers:
        program = program_name(subject, subject.ways[0])
        name = f"{subject.name}.{tool}"
        yield Case(
            name, "sanitizer", _SANITIZER_LIMIT, subject.name, tool, program, subject.tolerance
        )
