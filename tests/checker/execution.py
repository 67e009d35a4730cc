"""Executes an artifact's tables as a device would, but on symbols, and finds races.

A symbol is a hash of the way in which ``_grain`` bytes of memory were computed; it stands for their
numbers. This execution is the reference for the checker's verdict on mutants, artifacts with one
change. A mutant's own proof is not used: the proof of the original artifact says what rKernels
touch. Each artifact is run twice, because step counters continue from run to run.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.checker.files import Json

Index = NDArray[np.int64]

_BASES = ("input", "output", "constant", "arena")
_ODD = np.random.default_rng(7).integers(1 << 62, size=1 << 16, dtype=np.uint64) * 2 + 1
_MOST_RECORDS = 1 << 20


class Harmful(Exception):
    """The execution goes wrong; the message of this exception says how."""


@dataclass(frozen=True)
class Wait:
    """A barrier: for each pair (vEU, steps), a wait until the vEU has completed the steps."""

    pairs: list[tuple[int, int]]


@dataclass(frozen=True)
class Task:
    """An rTask in a vEU's list.

    Attributes:
        kernel: index of the rKernel in the program.
        number: index of the rTask among the rTasks of an rOperator with this rKernel.
        pointers: for each buffer argument, a base ("input", "output", "constant" or "arena"), the
            index of the input or output, and a byte offset.
        publishes: on a GPU, the step count that the vEU publishes after this rTask; None if it
            publishes none. Without meaning on a CPU.
    """

    kernel: int
    number: int
    pointers: tuple[tuple[str, int, int], ...]
    publishes: int | None


@dataclass(frozen=True)
class Tables:
    """The waits and rTasks of each vEU in one launch, from the tables of an artifact.

    Attributes:
        veus: the waits and rTasks of each vEU, in order.
        totals: number of steps of each vEU in a launch.
        is_cpu: whether the artifact is for a CPU.
    """

    veus: list[list[Wait | Task]]
    totals: list[int]
    is_cpu: bool


def _word(words: NDArray[Any], at: int) -> int:
    if not 0 <= at < len(words):
        raise Harmful("reads outside of the table")
    return int(words[at])


def _walk(words: NDArray[Any], at: int, size: int) -> Iterator[list[int] | Wait]:
    """Yield the entries of a vEU's list in a table, from word ``at`` to the end of the list.

    A barrier is yielded as a ``Wait``, any other entry as the list of its ``size`` words: a record
    of consecutive rTasks. Raise Harmful if the list has no end within the table.
    """
    for _ in range(_MOST_RECORDS):
        kind = _word(words, at)
        if kind == -2:
            return
        if kind == -1:
            n = _word(words, at + 1)
            if n < 0 or at + 2 + 2 * n > len(words):
                raise Harmful("a barrier without an end")
            pairs = words[at + 2 : at + 2 + 2 * n].reshape(-1, 2)
            yield Wait([(int(v), int(s)) for v, s in pairs])
            at += 2 + 2 * n
        else:
            yield [_word(words, at + k) for k in range(size)]
            at += size
    raise Harmful("no end")


def _cpu_tables(members: dict[str, bytes], kernels: Sequence[int]) -> list[Tables]:
    program = json.loads(members["program.json"])
    words, starts, arguments = (
        np.frombuffer(members[f"{name}.bin"], "<i4") for name in ("records", "starts", "arguments")
    )
    totals = np.frombuffer(members["totals.bin"], "<i8").tolist()
    slots = [tuple(program["slots"][s]) for o in program["operators"] for s in o[2]]
    pointers = list(dict.fromkeys(slots))
    veus: list[list[Wait | Task]] = []
    for start in starts.tolist():
        veus.append([])
        for record in _walk(words, start, 4):
            if isinstance(record, Wait):
                veus[-1].append(record)
                continue
            kernel, first, count, at = record
            if not 0 <= kernel < len(kernels) or count > _MOST_RECORDS:
                raise Harmful("no such rKernel, or no end")
            numbers = [_word(arguments, at + n) for n in range(kernels[kernel])]
            if not all(0 <= n < len(pointers) for n in numbers):
                raise Harmful("no such pointer")
            given = tuple(pointers[n] for n in numbers)
            veus[-1] += [Task(kernel, first + n, given, -1) for n in range(count)]
    return [Tables(veus, totals, True)]


def _gpu_tables(members: dict[str, bytes], kernels: Sequence[int], launches: int) -> list[Tables]:
    manifest, words = (
        json.loads(members["manifest.json"]),
        np.frombuffer(members["tables.bin"], "<i8"),
    )
    buffers = [("input", n) for n in range(len(manifest["inputs"]))]
    buffers += [("output", n) for n in range(len(manifest["outputs"]))]
    buffers += [("constant", 0), ("arena", 0)]
    num_veus = len(json.loads(members["program.json"])["launches"][0])
    found: list[Tables] = []
    for row in words.reshape(launches, -1):
        veus: list[list[Wait | Task]] = []
        for veu in range(num_veus):
            veus.append([])
            for record in _walk(row, int(row[veu]), 5):
                if isinstance(record, Wait):
                    veus[-1].append(record)
                    continue
                kernel, first, count, at, publish = record
                if not 0 <= kernel < len(kernels) or count > _MOST_RECORDS:
                    raise Harmful("no such rKernel, or no end")
                pairs = [
                    (_word(row, at + 2 * n), _word(row, at + 2 * n + 1))
                    for n in range(kernels[kernel])
                ]
                if not all(0 <= n < len(buffers) for n, _ in pairs):
                    raise Harmful("no such buffer")
                given = tuple((*buffers[n], offset) for n, offset in pairs)
                tasks = [Task(kernel, first + n, given, None) for n in range(count)]
                if tasks and publish:
                    tasks[-1] = Task(kernel, tasks[-1].number, given, publish)
                veus[-1] += tasks
        found.append(Tables(veus, row[num_veus : 2 * num_veus].tolist(), False))
    return found


class Oracle:
    """The execution of an original artifact, with which its mutants are compared.

    Memory is a dict of arrays of symbols: hashes, each of the way in which ``_grain`` bytes were
    computed. Its keys are pairs of a base ("input", "output", "constant" or "arena") and the index
    of the input or output.
    """

    def __init__(self, members: dict[str, bytes]) -> None:
        manifest = json.loads(members["manifest.json"])
        program, self._proof = (json.loads(members[f"{n}.json"]) for n in ("program", "proof"))
        self._boxes = np.frombuffer(members["boxes.bin"], "<i8")
        self._arity = [buffers for _, buffers in program["kernels"]]
        self._launches = len(program["launches"])
        self._is_cpu = manifest["target"] == "cpu"
        self._grain = self._granule(program)
        self._sizes = self._buffers(manifest, len(members["constants.bin"]))
        self._touched: dict[tuple[int, int], list[tuple[str, int, Index]]] = {}
        self._results = self._run_twice(members)

    def _buffers(self, manifest: Json, constants: int) -> dict[tuple[str, int], int]:
        sizes = {("constant", 0): constants}
        arena = manifest.get("arena_bytes") or dict(manifest.get("arguments", []))["arena"]
        sizes["arena", 0] = arena
        for base in ("input", "output"):
            for n, tensor in enumerate(manifest[f"{base}s"]):
                width = np.dtype(tensor["dtype"]).itemsize
                sizes[base, n] = int(np.prod(tensor["shape"], dtype=int)) * width
        return sizes

    def _granule(self, program: Json) -> int:
        found = 0
        for _, *kinds in self._proof["kernels"]:
            for _, width, _, _, strides in itertools.chain(*kinds):
                found = gcd(found, width, *strides)
        return gcd(found, *(slot[2] for slot in program["slots"]))

    def harm(self, members: dict[str, bytes]) -> str:
        """Return what goes wrong in the execution of a mutant; "" if its outputs are right.

        ``members`` are the mutant's files by name.
        """
        try:
            found = self._run_twice(members)
        except Harmful as error:
            return str(error)
        same = all(
            np.array_equal(a[key], b[key])
            for a, b in zip(found, self._results, strict=True)
            for key in a
        )
        return "" if same else "other results"

    def _run_twice(self, members: dict[str, bytes]) -> list[dict[tuple[str, int], Any]]:
        """Run the artifact of ``members`` twice; return the outputs' symbols after each run."""
        if self._is_cpu:
            launches = _cpu_tables(members, self._arity)
        else:
            launches = _gpu_tables(members, self._arity, self._launches)
        counters = [0] * len(launches[0].veus)
        memory = {
            key: np.random.default_rng([n, _BASES.index(key[0])]).integers(
                1 << 63, size=-(-size // self._grain), dtype=np.uint64
            )
            for n, (key, size) in enumerate(self._sizes.items())
        }
        found: list[dict[tuple[str, int], Any]] = []
        for run in range(2):
            for tables in launches:
                counters = self._launch(tables, memory, counters, run)
            found.append({k: v.copy() for k, v in memory.items() if k[0] == "output"})
        return found

    def _launch(
        self, tables: Tables, memory: dict[tuple[str, int], Any], counters: list[int], run: int
    ) -> list[int]:
        """Execute a launch of run ``run`` (0, 1, ...) in one of the orders that its waits permit.

        The symbols in ``memory`` change in place. ``counters`` are the step counters of the vEUs
        before the launch; return those after it. Raise Harmful for races, endless waits and bad
        accesses.
        """
        races = _Races(memory, len(tables.veus))
        number = len(tables.veus)
        totals = [*tables.totals, *[0] * number]
        runs = [run if tables.is_cpu else c // max(totals[v], 1) for v, c in enumerate(counters)]
        published = [_published(tables, v, runs[v]) for v in range(number)]
        places, steps = [0] * number, [0] * number
        clocks = np.zeros((number, number), np.int64)
        history: list[list[Any]] = [[] for _ in range(number)]
        progress = True
        while progress:
            progress = False
            for veu, items in enumerate(tables.veus):
                while places[veu] < len(items):
                    item = items[places[veu]]
                    if isinstance(item, Wait):
                        goals = [
                            self._goal(published, counters, v, totals[v] * runs[veu] + s)
                            for v, s in item.pairs
                            if self._exists(v, number)
                        ]
                        if any(steps[v] < s for (v, _), s in zip(item.pairs, goals, strict=True)):
                            break
                        for (v, _), s in zip(item.pairs, goals, strict=True):
                            if s:
                                np.maximum(clocks[veu], history[v][s - 1], out=clocks[veu])
                    else:
                        steps[veu] += 1
                        self._execute(item, memory, races, (veu, steps[veu], clocks[veu]))
                        clocks[veu, veu] = steps[veu]
                        history[veu].append(clocks[veu].copy())
                    places[veu] += 1
                    progress = True
        if any(place < len(items) for place, items in zip(places, tables.veus, strict=True)):
            raise Harmful("waits for ever")
        return [values[-1][1] if values else counters[v] for v, values in enumerate(published)]

    @staticmethod
    def _exists(veu: int, number: int) -> bool:
        if not 0 <= veu < number:
            raise Harmful("waits for nobody")
        return True

    @staticmethod
    def _goal(
        published: list[list[tuple[int, int]]], counters: list[int], veu: int, wanted: int
    ) -> int:
        """Return how many rTasks vEU ``veu`` has to execute until its step counter is high enough.

        ``published`` are the results of ``_published`` for all vEUs; ``counters`` are the step
        counters before the launch. Raise Harmful if the counter never reaches ``wanted``, or if a
        value that is published later is below ``wanted``.
        """
        if counters[veu] >= wanted and all(value >= wanted for _, value in published[veu]):
            return 0
        reached = [step for step, value in published[veu] if value >= wanted]
        later = [value for step, value in published[veu] if reached and step >= reached[0]]
        if not reached or min(later) < wanted:
            raise Harmful("waits for ever")
        return 0 if counters[veu] >= wanted else reached[0]

    def _execute(
        self,
        task: Task,
        memory: dict[tuple[str, int], Any],
        races: _Races,
        at: tuple[int, int, NDArray[np.int64]],
    ) -> None:
        """Execute an rTask: read the symbols in its boxes, then write new symbols.

        A new symbol is a hash of the rKernel, the rTask's index, the symbols that the rTask reads,
        and the argument and place that it writes. ``at`` has the vEU, the step of the rTask, and
        the vEU's vector clock.
        """
        found = np.uint64(task.kernel * 1_000_003 + task.number)
        writes: list[tuple[tuple[str, int], Index, int]] = []
        for kind, argument, inside in self._accesses(task.kernel, task.number):
            base, index, offset = task.pointers[argument]
            places = inside + offset // self._grain
            key = base, index
            if offset % self._grain or key not in memory:
                raise Harmful("an address in between")
            if len(places) and not 0 <= places.min() <= places.max() < len(memory[key]):
                raise Harmful("an address outside of a buffer")
            if kind != "W":
                if base == "constant":
                    found = _mixed(found ^ np.uint64(offset % (1 << 63)))
                else:
                    races.read(key, places, at)
                    weights = np.resize(_ODD, len(places))
                    found = _mixed(found ^ (memory[key][places] * weights).sum())
            if kind != "R":
                writes.append((key, places, argument))
        for key, places, argument in writes:
            if key[0] in ("constant", "input"):
                raise Harmful("writes what is only read")
            races.write(key, places, at)
            symbols = np.arange(len(places), dtype=np.uint64) * np.uint64(2 * argument + 1)
            memory[key][places] = (symbols + found) * _ODD[argument]

    def _accesses(self, kernel: int, number: int) -> list[tuple[str, int, Index]]:
        """Return all accesses of rTask ``number`` of an rKernel.

        Each access is a triple: its kind ("R" reads, "W" writes or "U" updates), the index of the
        argument, and the positions of the accessed symbols, counted from the argument's pointer.
        """
        if (kernel, number) not in self._touched:
            num_rtasks, *kinds = self._proof["kernels"][kernel]
            if not 0 <= number < num_rtasks:
                raise Harmful("no such rTask")
            self._touched[kernel, number] = [
                (kind, access[0], self._elements(access, number))
                for kind, accesses in zip("RWU", kinds, strict=True)
                for access in accesses
            ]
        return self._touched[kernel, number]

    def _elements(self, access: Any, number: int) -> Index:
        _, width, offsets, sizes, strides = access
        rank = len(strides)
        size = self._boxes[sizes + number * rank : sizes + (number + 1) * rank].tolist()
        places = np.arange(
            int(self._boxes[offsets + number]),
            int(self._boxes[offsets + number]) + width,
            self._grain,
        )
        for count, stride in zip(size, strides, strict=True):
            places = (places[:, None] + np.arange(count) * stride).reshape(-1)
        return places // self._grain


def _published(tables: Tables, veu: int, run: int) -> list[tuple[int, int]]:
    """Return the values that a vEU's step counter takes in a launch of run ``run``, in order.

    A value is the second number of a pair; the first number is the count of rTasks of the vEU that
    are completed when the counter takes the value.
    """
    tasks = [item for item in tables.veus[veu] if isinstance(item, Task)]
    begin = tables.totals[veu] * run if veu < len(tables.totals) else 0
    if tables.is_cpu:
        return [(n, begin + n) for n in range(1, len(tasks) + 1)]
    return [(n, begin + t.publishes) for n, t in enumerate(tasks, 1) if t.publishes is not None]


def _mixed(number: np.uint64) -> np.uint64:
    with np.errstate(over="ignore"):
        number = (number ^ (number >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        return number ^ (number >> np.uint64(29))


class _Races:
    """Finds accesses to a place in memory by two vEUs that no wait orders.

    A place has ``Oracle._grain`` bytes, for which one symbol stands in the execution. For each
    place and each vEU, the last steps at which the vEU read and wrote the place are known.
    """

    def __init__(self, memory: dict[tuple[str, int], Any], veus: int) -> None:
        self._sizes = {key: len(content) for key, content in memory.items()}
        self._veus = veus
        self._reads: dict[tuple[str, int], Any] = {}
        self._writes: dict[tuple[str, int], Any] = {}

    def _of(self, found: dict[tuple[str, int], Any], key: tuple[str, int]) -> Any:
        if key not in found:
            found[key] = np.zeros((self._veus, self._sizes[key]), np.int32)
        return found[key]

    def _check(self, steps: Any, places: Index, at: tuple[int, int, NDArray[np.int64]]) -> None:
        veu, _, clock = at
        for other in range(self._veus):
            if other != veu and len(places) and steps[other, places].max() > clock[other]:
                raise Harmful("a race")

    def read(self, key: tuple[str, int], places: Index, at: Any) -> None:
        """Check that a read is ordered after all other vEUs' writes to the same places; record it.

        ``key`` is the memory's base and index, and ``places`` are the indices of the read symbols
        in this memory. ``at`` has the reading vEU, its step, and its vector clock.
        """
        self._check(self._of(self._writes, key), places, at)
        self._of(self._reads, key)[at[0], places] = at[1]

    def write(self, key: tuple[str, int], places: Index, at: Any) -> None:
        """Check that a write is ordered after other vEUs' accesses to the same places; record it.

        The arguments are those of ``read``, for the written symbols and the writing vEU.
        """
        self._check(self._of(self._writes, key), places, at)
        self._check(self._of(self._reads, key), places, at)
        self._of(self._writes, key)[at[0], places] = at[1]
