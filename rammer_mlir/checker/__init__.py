"""Proof of an artifact's schedule from the file alone, of which nothing runs (docs/program.md)."""

import os
import time
import zipfile
from dataclasses import dataclass

from rammer_mlir.checker.artifact import Artifact
from rammer_mlir.checker.memory import Memory
from rammer_mlir.checker.schedule import Schedule
from rammer_mlir.errors import ArtifactError, RammerError


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
        return (
            f"proven in {self.seconds:.3f} s: launches {self.launches}, vEUs {self.veus}, rTasks "
            f"{self.rtasks}, waits {self.waits}, values {self.values}"
        )


def verify(path: str | os.PathLike[str]) -> Proven:
    """Prove that an artifact's schedule computes what its rOperators would one after the other.

    Raises ScheduleError naming the rule that is broken, ArtifactError if it is not an artifact.
    """
    begin = time.perf_counter()
    try:
        with zipfile.ZipFile(path) as file:
            artifact = Artifact(file)
        schedule = Schedule(artifact)
        Memory(artifact, schedule)
    except RammerError as error:
        raise type(error)(f"'{path}': {error}; compile the model again") from None
    except FileNotFoundError as error:
        raise ArtifactError(f"cannot read '{path}': {error.strerror}") from error
    except Exception as error:  # whatever reading a file that is no artifact can raise
        found = f"{type(error).__name__}: {str(error)[:200]}"
        raise ArtifactError(f"'{path}' is not a compiled model or is damaged ({found})") from error
    sizes = len(artifact.launches), len(artifact.launches[0]), len(schedule.veu), schedule.waits
    return Proven(*sizes, len(artifact.values), time.perf_counter() - begin)
