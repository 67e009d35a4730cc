"""Proof of an artifact's schedule from the file alone (``docs/program.md``).

It shares no code with the compiler, its verifier or the runtime, and runs nothing of the file.
"""

from __future__ import annotations

import os
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rammer_mlir.checker.artifact import Artifact
from rammer_mlir.checker.members import Members, programs_of
from rammer_mlir.checker.memory import Uses, check_places
from rammer_mlir.checker.schedule import Schedule
from rammer_mlir.errors import ArtifactError, RammerError

__all__ = ["Proven", "verify"]

_MALFORMED = (
    zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, AttributeError, EOFError,
    OverflowError, NotImplementedError, RuntimeError, OSError,
)  # fmt: skip
"""What a file that is no artifact can raise."""


@dataclass(frozen=True)
class Proven:
    """What was proven of a schedule, or of all of several, and the seconds that it took."""

    launches: int
    veus: int
    rtasks: int
    waits: int
    values: int
    seconds: float
    programs: int = 1

    def __str__(self) -> str:
        """Say it in one line."""
        several = f"programs {self.programs}, " if self.programs > 1 else ""
        return (
            f"proven in {self.seconds:.3f} s: {several}launches {self.launches}, vEUs "
            f"{self.veus}, rTasks {self.rtasks}, waits {self.waits}, values {self.values}"
        )


def verify(path: str | os.PathLike[str]) -> Proven:
    """Prove that an artifact's schedule computes what its rOperators would one after the other.

    Raises:
        ScheduleError: naming the rule that is broken and by which rTasks.
        ArtifactError: if the file is missing, or not an artifact.
    """
    try:
        return _prove(Path(path))
    except RammerError as error:
        raise type(error)(f"'{path}': {error}; compile the model again") from None
    except FileNotFoundError as error:
        raise ArtifactError(f"cannot read '{path}': {error.strerror}") from error
    except _MALFORMED as error:
        raise ArtifactError(
            f"'{path}' is not a compiled model or is damaged ({type(error).__name__}: "
            f"{str(error)[:200]}): expected a file that rammer-compile wrote"
        ) from error


def _prove(path: Path) -> Proven:
    begin = time.perf_counter()
    with zipfile.ZipFile(path) as file:
        programs = programs_of(file)
        sizes = np.array([_prove_program(members) for members in programs], np.int64)
    launches, _, rtasks, waits, values = sizes.sum(axis=0).tolist()
    veus, seconds = int(sizes[:, 1].max()), time.perf_counter() - begin
    return Proven(launches, veus, rtasks, waits, values, seconds, len(programs))


def _prove_program(members: Members) -> tuple[int, ...]:
    """Prove a program; return its launches, vEUs, rTasks, waits and values."""
    try:
        artifact = Artifact(members)
        check_places(artifact)
        schedule = Schedule(artifact)
        Uses(artifact, schedule).check()
    except RammerError as error:
        where = f"in '{members.folder[:80]}': " if members.folder else ""
        raise type(error)(f"{where}{error}") from None
    sizes = len(artifact.launches), len(artifact.launches[0]), len(schedule.veu), schedule.waits
    return *sizes, len(artifact.values)
