"""The whole proof of an artifact."""

from __future__ import annotations

import os
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rammer_mlir.checker.archive import Archive, Int64Array, integers
from rammer_mlir.checker.conflicts import Conflicts
from rammer_mlir.checker.history import history
from rammer_mlir.checker.memory import check_places, check_sharing
from rammer_mlir.checker.program import Program, read_program
from rammer_mlir.checker.proof import Proof, read_proof, uses_of
from rammer_mlir.checker.tables import check_cpu_table, check_gpu_tables
from rammer_mlir.errors import ArtifactError, RammerError, ScheduleError

_MALFORMED = (
    zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, AttributeError, EOFError,
    OverflowError, NotImplementedError, RuntimeError, OSError,
)  # fmt: skip
"""What reading a file that is no artifact can raise."""

_MOST_BUFFERS, _MOST_BUFFER_BYTES = 1 << 16, 1 << 44


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


@dataclass(frozen=True)
class _Contents:
    """What an artifact says: its program, its proof, and the bytes of each base's buffers."""

    program: Program
    proof: Proof
    sizes: tuple[Int64Array, ...]


def verify(path: str | os.PathLike[str]) -> Proven:
    """Prove that an artifact's schedule computes what its rOperators would one after the other.

    Raises:
        ScheduleError: naming the rule that is broken and by which rTasks.
        ArtifactError: if the file is missing, or not an artifact.
    """
    begin = time.perf_counter()
    path = Path(path)
    found = _guarded(path, lambda: _read(path))
    try:
        return _prove(found, begin)
    except ScheduleError as error:
        raise _placed(path, error) from None


def _placed(path: Path, error: RammerError) -> RammerError:
    return type(error)(f"'{path}': {error}; compile the model again")


def _guarded(path: Path, read: Callable[[], _Contents]) -> _Contents:
    try:
        return read()
    except RammerError as error:
        raise _placed(path, error) from None
    except FileNotFoundError as error:
        raise ArtifactError(f"cannot read '{path}': {error.strerror}") from error
    except _MALFORMED as error:
        raise ArtifactError(
            f"'{path}' is not a compiled model or is damaged ({type(error).__name__}: "
            f"{str(error)[:200]}): expected a file that rammer-compile wrote"
        ) from error


def _read(path: Path) -> _Contents:
    """Read the artifact and check its table (rule 6)."""
    with zipfile.ZipFile(path) as file:
        archive = Archive(file, path)
        manifest = archive.manifest()
        sizes = _buffer_bytes(archive, manifest)
        buffers = [len(part) for part in sizes]
        program = read_program(archive, buffers)
        if not archive.has("tables.bin"):
            check_cpu_table(archive, program)
        else:
            check_gpu_tables(archive, program, buffers)
        return _Contents(program, read_proof(archive, program, buffers), sizes)


def _prove(found: _Contents, begin: float) -> Proven:
    program, proof = found.program, found.proof
    check_places(proof.values, found.sizes)
    uses = uses_of(program, proof)
    order = history(program, proof.num_rtasks[program.kernels])
    Conflicts(proof, uses, order).check()
    check_sharing(proof.values, uses, order)
    return Proven(
        launches=len(program.launches),
        veus=program.num_veus,
        rtasks=len(order.veu),
        waits=program.num_waits,
        values=len(proof.values.names),
        seconds=time.perf_counter() - begin,
    )


def _buffer_bytes(archive: Archive, manifest: Mapping[str, Any]) -> tuple[Int64Array, ...]:
    """Return the sizes of inputs, outputs, constants and the arena."""
    arena = manifest.get("arena_bytes")
    if arena is None:  # a kernel's argument, as all of its buffers are
        arena = dict(manifest["arguments"])["arena"]
    constants = archive.size("constants.bin")
    parts = (_tensors(manifest["inputs"]), _tensors(manifest["outputs"]), [constants], [arena])
    if max(map(len, parts)) > _MOST_BUFFERS:
        raise ArtifactError(f"manifest.json: expected at most {_MOST_BUFFERS} inputs and outputs")
    return tuple(integers(part, "bytes of buffers", _MOST_BUFFER_BYTES) for part in parts)


def _tensors(entries: Sequence[Mapping[str, Any]]) -> list[int]:
    return [
        prod(integers(entry["shape"], "shape").tolist()) * _item_bytes(entry["dtype"])
        for entry in entries
    ]


def _item_bytes(name: str) -> int:
    """Return an element's size; those that NumPy does not know are of ml_dtypes."""
    try:
        return np.dtype(name).itemsize
    except TypeError:
        return 2 if name == "bfloat16" else 1
