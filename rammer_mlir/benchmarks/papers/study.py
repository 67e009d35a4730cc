"""Define studies, sets of independent cases, and measure each case in a separate process.

To measure a case means to compute its record: numbers that are measured, predicted or counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.errors import OptionError

Record = dict[str, Any]
"""The numbers measured, predicted or counted for a case, as a JSON object."""

TIMEOUT = 1800.0
"""Time limit in seconds of a case."""


class Case(Protocol):
    """A case of a study: the settings of a measurement."""

    @property
    def key(self) -> str:
        """The case's name, unique in the study; it identifies the case in the file of records."""
        ...


_Case = TypeVar("_Case", bound=Case)


@dataclass(frozen=True)
class Study(Generic[_Case]):
    """A set of cases that one function measures.

    Attributes:
        name: name of the study.
        measure: returns the record of a case. The function must be importable, because it is called
            in other processes.
        cases: all cases, at full size.
        quick: small cases, which tests measure again to compare them with the stored records.
        is_timed: whether records have times measured on this machine; otherwise records are the
            same on every machine.
    """

    name: str
    measure: Callable[[_Case], Record]
    cases: tuple[_Case, ...]
    quick: tuple[_Case, ...]
    is_timed: bool = False


@dataclass
class Records:
    """The records of all studies: ``studies[study name][case key]`` is a record.

    A record has the numbers of the case, or an ``error`` if measuring failed. It also has the
    commit of the measuring code, the date, and the processor.
    """

    studies: dict[str, dict[str, Record]] = field(default_factory=dict[str, "dict[str, Record]"])

    def get(self, study: str, key: str, default: Record) -> Record:
        """Return the record of case ``key`` of ``study``, or ``default`` if there is none."""
        return self.studies.get(study, {}).get(key, default)

    def of(self, study: str, key: str) -> Record:
        """Return the record of case ``key`` of ``study``.

        Raises:
            OptionError: if there is no such record.
        """
        found = self.get(study, key, {})
        if not found:
            raise OptionError(f"study {study}: case '{key}' was not measured: measure it first")
        return found

    def add(self, study: str, key: str, record: Record) -> None:
        """Set or replace the record of case ``key`` of ``study``."""
        self.studies.setdefault(study, {})[key] = record

    def write(self, path: Path) -> None:
        """Write the records atomically to the JSON file ``path``, with a line for each case."""
        path.parent.mkdir(parents=True, exist_ok=True)
        studies = [
            f" {json.dumps(name)}: {{\n"
            + ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in cases.items())
            + "\n }"
            for name, cases in sorted(self.studies.items())
        ]
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.write_text("{\n" + ",\n".join(studies) + "\n}\n", encoding="utf-8")
        unfinished.replace(path)


def read_records(path: Path) -> Records:
    """Return the records in the JSON file ``path``.

    Raises:
        OptionError: if the file cannot be read or does not contain records.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Records({name: dict(cases) for name, cases in content.items()})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise OptionError(f"{path}: expected records of studies, found: {error}") from None


def measure_all(
    work: Sequence[tuple[Study[Any], Case]], workers: int
) -> Iterator[tuple[Study[Any], Case, Record]]:
    """Measure cases, and yield each case and its record as soon as it is measured.

    Up to ``workers`` cases are measured concurrently. The cases of timed studies come last, one
    after the other, so that no other case disturbs their times.
    """
    untimed = [pair for pair in work if not pair[0].is_timed]
    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(_measure, *pair): pair for pair in untimed}
        for done in as_completed(waiting):
            yield (*waiting[done], done.result())
    for study, case in work:
        if study.is_timed:
            yield study, case, _measure(study, case)


def _measure(study: Study[Any], case: Case) -> Record:
    found = in_child(study.measure, case, TIMEOUT)
    return {"error": found.message} if isinstance(found, Failure) else found
