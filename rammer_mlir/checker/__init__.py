"""Prove that an artifact's schedules are correct, from the file alone (docs/program.md).

The proof executes nothing of the artifact.
"""

import os
import time
import zipfile
from dataclasses import dataclass

from rammer_mlir.checker.artifact import TooLargeError, artifacts
from rammer_mlir.checker.proof import Memory, Schedule, check_exclusive
from rammer_mlir.errors import ArtifactError, RammerError


@dataclass(frozen=True)
class Proven:
    """The result of a proof: counts over all programs of a file.

    Attributes:
        seconds: duration of the proof in seconds.
        programs: number of programs.
        veus: the largest number of vEUs of a program.
        rtasks: number of rTasks of all programs.
        waits: number of pairs (vEU, step) in the barriers of all programs.
        values: number of inputs, outputs, constants and intermediates of all programs.
    """

    seconds: float
    programs: int
    veus: int
    rtasks: int
    waits: int
    values: int

    def __str__(self) -> str:
        found = f"vEUs {self.veus}, rTasks {self.rtasks}, waits {self.waits}, values {self.values}"
        return f"proven in {self.seconds:.3f} s: programs {self.programs}, {found}"


def verify(path: str | os.PathLike[str]) -> Proven:
    """Prove that an artifact's schedules compute the same as its rOperators in sequential order.

    Returns:
        Counts, and the duration of the proof.

    Raises:
        ScheduleError: if a rule of ``docs/program.md`` is violated; the message names the rule.
        ArtifactError: if the file cannot be read, is not an artifact, or is too large to be proven.
    """
    begin, found = time.perf_counter(), list[tuple[int, ...]]()
    try:
        with zipfile.ZipFile(path) as file:
            for artifact in artifacts(file):
                schedule = Schedule(artifact)
                check_exclusive(artifact, schedule)
                Memory(artifact, schedule)
                counts = len(schedule.veu), schedule.waits, len(artifact.values)
                found.append((len(artifact.launches[0]), *counts))
    except RammerError as error:
        where = f"program {len(found)}: " if found else ""
        advice = "" if isinstance(error, TooLargeError) else "; compile the model again"
        raise type(error)(f"'{path}': {where}{error}{advice}") from None
    except OSError as error:
        raise ArtifactError(f"cannot read '{path}': {error.strerror}") from error
    except Exception as error:  # reading a malformed file can raise any exception
        text = f"{type(error).__name__}: {str(error)[:200]}"
        raise ArtifactError(f"'{path}' is not a compiled model or is damaged ({text})") from error
    veus = max((n for n, *_ in found), default=0)
    sums = [sum(column) for column in zip((0, 0, 0, 0), *found, strict=True)]
    return Proven(time.perf_counter() - begin, len(found), veus, *sums[1:])
