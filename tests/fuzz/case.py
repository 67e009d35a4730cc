"""What the fuzzer tries, and what it finds: both can be written to files and read again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Case:
    """One trial.

    Attributes:
        kind: which oracle judges it.
        seed: what it was generated from; arrays for a run are drawn from it too.
        model: a serialized model, damaged for the kind ``file``.
        options: what the kind needs beside the model.
    """

    kind: str
    seed: int
    model: bytes
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def name(self) -> str:
        """A name for its files."""
        return f"{self.kind}-{self.seed}"


@dataclass(frozen=True)
class Problem:
    """Why a case is a finding.

    Attributes:
        sort: stays the same while the case is shrunk: ``wrong numbers``, ``KeyError``, ``hang``.
        text: all that is known.
        refused: the compiler refused a valid model in one line: a limit rather than a fault.
    """

    sort: str
    text: str
    refused: bool = False


def write_case(folder: Path, case: Case, problem: Problem | None = None) -> Path:
    """Write a case into a folder; return the file with the model."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.name}.onnx"
    path.write_bytes(case.model)
    told = {"kind": case.kind, "seed": case.seed, "options": dict(case.options)}
    if problem is not None:
        told["problem"] = problem.text
    path.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    return path


def read_case(path: Path) -> Case:
    """Read a case by the file with its model."""
    told = json.loads(path.with_suffix(".json").read_text())
    return Case(told["kind"], told["seed"], path.read_bytes(), told["options"])


def cases_in(paths: Iterable[Path]) -> Iterator[Case]:
    """Read cases from files, and from folders of files."""
    for path in paths:
        for file in sorted(path.glob("*.onnx")) if path.is_dir() else [path]:
            yield read_case(file)
