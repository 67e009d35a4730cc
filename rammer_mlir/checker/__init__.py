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

from rammer_mlir.checker.artifact import Artifact
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
    """What was proven of a schedule, and the seconds that it took."""

    launches: int
    veus: int
    rtasks: int
    waits: int
    values: int
    seconds: float

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"proven in {self.seconds:.3f} s: launches {self.launches}, vEUs {self.veus}, rTasks "
            f"{self.rtasks}, waits {self.waits}, values {self.values}"
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
        artifact = Artifact(file)
    check_places(artifact)
    schedule = Schedule(artifact)
    Uses(artifact, schedule).check()
    sizes = len(artifact.launches), len(artifact.launches[0]), len(schedule.veu), schedule.waits
    return Proven(*sizes, len(artifact.values), time.perf_counter() - begin)
