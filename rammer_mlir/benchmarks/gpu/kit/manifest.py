"""Read and write ``kit.json``, the table of contents of a kit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rammer_mlir.benchmarks.gpu.kit.cases import Case, Tolerance
from rammer_mlir.benchmarks.gpu.kit.store import Reference, Store
from rammer_mlir.errors import OptionError
from rammer_mlir.support.atomic_file import open_atomically

KIT, ARRAYS, PROGRAMS, GRAPHS, PROBE = "kit.json", "arrays", "programs", "graphs", "probe.cubin"


@dataclass(frozen=True)
class Model:
    """References to a model's inputs and expected outputs in the kit's store.

    Attributes:
        feeds: inputs by name.
        expected: outputs by name; empty for a product, whose outputs are computed in f64 on demand.
        graph: file of the graph for PyTorch; empty if there is none.
        product: precision, such as "f16", of a model that is a product of two inputs; empty for
            other models.
    """

    feeds: dict[str, Reference]
    expected: dict[str, Reference] = field(default_factory=dict[str, Reference])
    graph: str = ""
    product: str = ""


@dataclass(frozen=True)
class ProgramFacts:
    """Numbers of a program that are known without a GPU.

    Attributes:
        predicted: seconds of a run on the simulator; 0 if each operator is a separate launch.
        operations: scalar operations of a run.
        num_bytes: bytes of weights, inputs and outputs.
        num_veus: number of vEUs, the blocks of a launch.
    """

    predicted: float
    operations: int
    num_bytes: int
    num_veus: int


@dataclass(frozen=True)
class Kit:
    """The table of contents of a kit.

    Attributes:
        target: the target that the programs are compiled for.
        made: the machine that packed the kit, and the date.
        cases: cases in the order in which they run.
        models: models by name.
        programs: programs by name.
    """

    target: str
    made: dict[str, Any]
    cases: list[Case]
    models: dict[str, Model]
    programs: dict[str, ProgramFacts]

    def case(self, name: str) -> Case:
        """Return the case ``name``.

        Raises:
            OptionError: if the kit has no case of this name.
        """
        for case in self.cases:
            if case.name == name:
                return case
        raise OptionError(
            f"case '{name}': expected one of the kit, {_some(self.cases)}; choose one of these"
        )


def _some(cases: Sequence[Case]) -> str:
    names = [case.name for case in cases]
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")


def _case(found: Mapping[str, Any]) -> Case:
    fields: dict[str, Any] = {**found, "tolerance": Tolerance(**found["tolerance"])}
    return Case(**fields)


def store_of(folder: Path) -> Store:
    """Return the store of arrays of the kit in ``folder``."""
    return Store(folder / ARRAYS)


def write_kit(folder: Path, kit: Kit) -> None:
    """Write the description of a kit to the file ``kit.json`` in ``folder``."""
    with open_atomically(folder / KIT) as file:
        file.write((json.dumps(asdict(kit), indent=1) + "\n").encode())


def read_kit(folder: Path) -> Kit:
    """Return the kit that the file ``kit.json`` in a folder describes.

    Raises:
        OptionError: if the folder is not a kit.
    """
    try:
        found = json.loads((folder / KIT).read_text(encoding="utf-8"))
        cases = [_case(case) for case in found["cases"]]
        return Kit(
            found["target"], found["made"], cases,
            {name: Model(**model) for name, model in found["models"].items()},
            {name: ProgramFacts(**facts) for name, facts in found["programs"].items()},
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"'{folder}': expected a kit with a file {KIT}, found none that can be read "
            f"({error}); write one with 'make gpu-kit'"
        ) from error
