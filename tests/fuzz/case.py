"""Cases that the fuzzer tries, and the problems that it finds; both are stored in files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Case:
    """A trial of the fuzzer.

    Attributes:
        kind: name of the kind, which defines how the case is checked.
        seed: number that generated the case, and that generates its input arrays.
        model: serialized ONNX model; damaged for the kind ``file``.
        options: other settings of the kind, such as options of compilation.
    """

    kind: str
    seed: int
    model: bytes
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def name(self) -> str:
        """The stem of the names of the case's files, such as ``model-7``."""
        return f"{self.kind}-{self.seed}"


@dataclass(frozen=True)
class Problem:
    """The reason why a case is a finding.

    Attributes:
        sort: short name, such as ``wrong numbers``, ``KeyError`` or ``hang``; a smaller case counts
            as the same finding if its sort is equal.
        text: full description.
        refused: whether the compiler refused a valid model in one line, which is a limit rather
            than a fault.
    """

    sort: str
    text: str
    refused: bool = False


def write_case(folder: Path, case: Case, problem: Problem | None = None) -> Path:
    """Write a case to a folder; return the path of its model file.

    A JSON file beside the model has the other fields of the case, and the text of the problem, if
    any.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.name}.onnx"
    path.write_bytes(case.model)
    told = {"kind": case.kind, "seed": case.seed, "options": dict(case.options)}
    if problem is not None:
        told["problem"] = problem.text
    path.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    return path


def read_case(path: Path) -> Case:
    """Return the case whose model file is ``path``."""
    told = json.loads(path.with_suffix(".json").read_text())
    return Case(told["kind"], told["seed"], path.read_bytes(), told["options"])


def cases_in(paths: Iterable[Path]) -> Iterator[Case]:
    """Yield the cases of model files, and of all model files in folders."""
    for path in paths:
        for file in sorted(path.glob("*.onnx")) if path.is_dir() else [path]:
            yield read_case(file)
