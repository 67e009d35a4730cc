"""Read an artifact into flat arrays, and check every number, because the file is untrusted."""

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ArtifactError, ScheduleError

Array = NDArray[np.int64]

BASES = ("input", "output", "constant", "arena")
BASE = dict(zip(BASES, BASES, strict=True)) | {"intermediate": "arena", "inout": "input"}
"""For each kind of value in ``proof.json``, the kind of buffer that must hold the value."""

LARGEST, MOST = 1 << 48, 1 << 23
"""Upper bounds of a number in a file, and of a list's length: sums stay far below 2**63."""


def refuse(wrong: NDArray[np.bool_], message: Callable[[int], str]) -> None:
    """Raise ScheduleError if an element of the mask ``wrong`` is true.

    ``message`` returns the error's text for the index of the first true element.
    """
    for at in np.flatnonzero(wrong)[:1].tolist():
        raise ScheduleError(message(at))


class TooLargeError(ArtifactError):
    """An artifact is too large to be proven in reasonable time; it may be right."""


def limit(found: float, what: str, most: int = MOST) -> None:
    """Raise TooLargeError if the count ``found`` exceeds ``most``, to bound the proof's time.

    The error's message begins with ``what``, the name of the counted objects, such as "rTasks".
    """
    if found > most:
        raise TooLargeError(f"{what}: expected at most {most} in a proof, found {found:.0f}")


def integers(values: Iterable[Any], what: str, end: int = LARGEST, low: int = 0) -> Array:
    """Return ``values`` as an int64 array, after a check that all are integers in the range.

    Raises:
        ArtifactError: if an element is not an integer from ``low`` to ``end - 1``; the message
            begins with ``what``, a name for the values.
    """
    found = list(values)
    if set(map(type, found)) - {int} or (found and not low <= min(found) <= max(found) < end):
        raise ArtifactError(f"{what}: expected integers from {low} to {end - 1}")
    return np.array(found, np.int64)


def starts(counts: Array | list[int]) -> Array:
    """Return the offset of each of several concatenated lists, and then the total length.

    ``counts`` has the lengths of the lists. For example, ``[2, 3]`` gives ``[0, 2, 5]``.
    """
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def entries(counts: Array) -> tuple[Array, Array]:
    """Return, for each element of concatenated lists, its list's index and its index in this list.

    ``counts`` has the lengths of the lists. For example, ``[2, 1]`` gives ``[0, 0, 1]`` and ``[0,
    1, 0]``.
    """
    limit(float(counts.sum(dtype=float)), "entries of a list")
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - starts(counts)[owner]


def _read(file: zipfile.ZipFile, folder: str, name: str, kind: str = "u1") -> NDArray[Any]:
    limit(file.getinfo(folder + name).file_size, f"bytes of {name}", 1 << 24)
    return np.frombuffer(file.read(folder + name), kind)


def _num_bytes(tensor: dict[str, Any]) -> int:
    try:
        width = np.dtype(tensor["dtype"]).itemsize
    except TypeError:  # a type of ml_dtypes
        width = 2 if tensor["dtype"] == "bfloat16" else 1
    return int(np.prod(integers(tensor["shape"], "shape"), dtype=float) * width)  # exact to 2**53


class Boxes:
    """The bytes of an rKernel's argument that each rTask accesses: a strided box per rTask.

    A box has an offset in bytes, and a size in elements for each dimension. An rTask with a box of
    size 0 accesses no bytes, and is left out.

    Args:
        tasks: number of rTasks.
        row: three integers: the bytes of an element; the index in ``words`` of the offset of rTask
            0, after which come the offsets of the other rTasks; and the index in ``words`` of the
            sizes of rTask 0, after which come the sizes of the other rTasks.
        strides: stride of each dimension in bytes.
        words: the content of ``boxes.bin``.
    """

    def __init__(self, tasks: int, row: Sequence[int], strides: Sequence[int], words: Array):
        self._width, first, second = row
        steps, self._strides = np.array(strides, np.int64), np.abs(strides).astype(np.int64)
        sizes = words[second : second + tasks * len(steps)].reshape(tasks, len(steps))
        self._task = np.flatnonzero((sizes > 0).all(axis=1))
        self._sizes = sizes[self._task]
        # In floats, as the product of untrusted sizes and strides may exceed 64 bits.
        span = float(self._sizes.max(axis=0, initial=0).astype(float) @ self._strides)
        limit(span + self._width, "bytes of a box", LARGEST)
        self._begin = words[first : first + tasks][self._task]
        # With a negative stride, the lowest address is that of the last element.
        self._begin = self._begin + (self._sizes - 1) @ np.minimum(steps, 0)
        ends = self._begin + (self._sizes - 1) @ self._strides + self._width
        self.bounds = self._begin.min(initial=LARGEST), ends.max(initial=-LARGEST)

    def runs(self) -> Array:  # rTask, begin, end of consecutive bytes
        box, begin = np.arange(len(self._task)), self._begin
        length = np.full(len(box), self._width)
        # By ascending stride, so that inner dimensions form the runs that outer dimensions repeat.
        for dim in np.argsort(self._strides).tolist():
            stride, size = self._strides[dim], self._sizes[box, dim]
            dense = stride <= length  # a dense dimension extends a run, any other repeats it
            length = np.where(dense, length + stride * (size - 1), length)
            run, number = entries(np.where(dense, 1, size))
            box, begin, length = box[run], begin[run] + number * stride, length[run]
        return np.stack((self._task[box], begin, begin + length))


class Artifact:
    """A program, its task tables and its proof, read from the members of an artifact's zip file.

    The constructor checks that these members agree about rKernels, buffers and pointers.
    """

    def __init__(self, file: zipfile.ZipFile, manifest: dict[str, Any]):
        self._read = partial(_read, file, manifest["folder"])
        program, proof = (json.loads(bytes(self._read(f"{n}.json"))) for n in ("program", "proof"))
        self.is_cpu = manifest["code"] == "so"  # the loader decides by the same field
        arena = manifest["arena_bytes"] if self.is_cpu else dict(manifest["arguments"])["arena"]
        size = file.getinfo("constants.bin").file_size
        pieces = integers(chain(*manifest["constants"]), "pieces of constants")
        self._pieces = starts([*pieces[1::2], 0])
        outside = (pieces[::2] + pieces[1::2] > size) | (pieces[::2] % 64 != 0)
        refuse(outside, lambda at: f"rule 5 (memory): expected piece {at} of constants in the file")
        sizes = [[*map(_num_bytes, manifest["inputs"])], [*map(_num_bytes, manifest["outputs"])]]
        sizes += [[int(self._pieces[-1])], [arena]]
        self._rooms = integers(chain(*sizes), "bytes of buffers")
        self._buffers = np.array([*map(len, sizes)])
        self._read_values(proof["values"])
        self._read_operators(program, proof)
        self._read_accesses(proof["kernels"], self._read("boxes.bin", "<i8"))
        found = integers(proof.get("exclusive", ()), "exclusive rKernels", len(self._arity))
        self.is_exclusive = np.isin(self.kernels, found)  # of rOperators
        self._read_tables(program["launches"])

    def _places(self, rows: Iterable[Any]) -> Array:  # number of the buffer, offset
        numbers = ((BASES.index(base), index, offset) for base, index, offset in rows)
        found = integers(chain.from_iterable(numbers), "pointers", low=1 - LARGEST).reshape(-1, 3)
        if ((found[:, 1] < 0) | (found[:, 1] >= self._buffers[found[:, 0]])).any():
            raise ArtifactError("pointers: expected buffers of the manifest")
        return np.stack((starts(self._buffers)[found[:, 0]] + found[:, 1], found[:, 2]), axis=1)

    def _read_values(self, values: Sequence[Any]) -> None:
        """Read the values of ``proof.json``; check that each value lies in a buffer of its kind.

        The kinds are input, output, updated input, constant and intermediate. A value of one of the
        first three kinds must fill its buffer. Each output must have a value.
        """
        self.values, kind = [str(v[0])[:80] for v in values], np.array([str(v[1]) for v in values])
        misplaced = np.array([BASE[name] != base for _, name, (base, _, _), _ in values])
        self.places = self._places(place for _, _, place, _ in values)
        self.num_bytes = size = integers((num_bytes for *_, num_bytes in values), "bytes of values")
        self.has_kind = {name: kind == name for name in BASE}
        constant, in_arena = self.has_kind["constant"], self.has_kind["intermediate"]
        limit(self._rooms.sum(dtype=float) + size.sum(dtype=float), "bytes", 1 << 60)
        (buffer, begin), room = self.places.T, self._rooms[self.places[:, 0]]
        self.addresses = starts(self._rooms)[buffer] + begin
        end = self._pieces[np.searchsorted(self._pieces[1:-1], begin, "right") + 1]
        misplaced |= constant & ((begin + size > end) | (begin % 64 != 0))
        misplaced |= (begin < 0) | (begin + size > room)
        refuse(misplaced | ((size != room) & ~in_arena & ~constant), lambda at: (
            f"rule 5 (memory): {self.values[at]} of {size[at]} bytes: expected a place in a buffer "
            f"of its kind, found byte {begin[at]} of {room[at]}"
        ))  # fmt: skip
        missing = np.setdiff1d(np.flatnonzero(self._rooms), buffer) - self._buffers[0]
        wrong = (missing >= 0) & (missing < self._buffers[1])
        refuse(wrong, lambda at: f"rule 4 (defined): expected a value for output {missing[at]}")

    def _read_operators(self, program: dict[str, Any], proof: dict[str, Any]) -> None:
        """Read the rOperators with their rKernels and arguments, and compare them with the proof.

        An argument is a pointer to a buffer. ``program`` and ``proof`` are the contents of
        ``program.json`` and ``proof.json``, which must have the same rKernels and arguments. One
        list has the arguments of all rOperators: those of rOperator ``o`` have the indices
        ``first[o]`` to ``first[o + 1] - 1``.
        """
        operators, slots = program["operators"], self._places(program["slots"])
        self._arity = integers((buffers for _, buffers in program["kernels"]), "buffers")
        self.names = [str(name)[:80] for name, _, _ in operators]
        self.kernels = integers((o[1] for o in operators), "rKernels", len(self._arity))
        self.first = starts([len(o[2]) for o in operators])
        numbers = integers(chain.from_iterable(o[2] for o in operators), "slots", len(slots))
        operands = [operand for o in proof["operators"] for operand in o[1]]
        self.value = integers((v for v, _ in operands), "values of rOperators", len(self.values))
        self.byte = integers((byte for _, byte in operands), "bytes of pointers", low=1 - LARGEST)
        named = [[o[0], len(o[1])] for o in proof["operators"]]
        wanted = np.stack((self.kernels, self._arity[self.kernels]), axis=1).tolist()
        if named != wanted or (np.diff(self.first) != self._arity[self.kernels]).any():
            raise ScheduleError("rule 6 (encoded): expected rKernels as in proof.json")
        self.pointers = slots[numbers]  # buffer, offset
        moved = self.places[self.value] + np.outer(self.byte, (0, 1))
        refuse((self.pointers != moved).any(axis=1), lambda at: (
            f"rule 6 (encoded): argument {at}: expected a pointer to byte {self.byte[at]} of "
            f"{self.values[self.value[at]]}, found slot {numbers[at]} elsewhere"
        ))  # fmt: skip

    def _read_accesses(self, kernels: Sequence[Any], words: Array) -> None:
        """Read the accesses of rKernel ``k`` into ``accesses[k]``, and all boxes into ``boxes``.

        An access has three integers: the index of the rKernel's argument; the effect (0 read, 1
        write, 2 update); and the index in ``boxes`` of the boxes that the rTasks access.
        ``kernels`` has the rKernels of ``proof.json``: each has its number of rTasks, then its
        reads, writes and updates. ``words`` is the content of ``boxes.bin``.
        """
        self.num_rtasks = integers((tasks for tasks, _, _, _ in kernels), "rTasks", MOST)
        limit(np.abs(words.astype(float)).max(initial=0), "numbers of boxes.bin", LARGEST)
        self.boxes = list[Boxes]()
        self.accesses: list[list[tuple[int, int, int]]] = [[] for _ in kernels]
        for (tasks, *lists), found, arity in zip(kernels, self.accesses, self._arity, strict=True):
            for effect, accesses in enumerate(lists):
                for argument, *row, strides in accesses:
                    integers((*row, *map(abs, strides)), "accesses")
                    integers([argument], "arguments of accesses", arity)
                    found.append((argument, effect, len(self.boxes)))
                    self.boxes.append(Boxes(tasks, row, strides, words))
                    limit(len(self.boxes), "accesses of rKernels", 1 << 16)

    def _read_tables(self, launches: list[list[Any]]) -> None:
        """Read the task tables; the table of a launch has four lists of integers.

        - the words of the records of all vEUs
        - the words of the arguments
        - for each vEU, the index of the first word of its records
        - for each vEU, its number of rTasks
        """
        self.launches, veus = launches, len(launches[0])
        limit(veus, "vEUs", 1 << 12)
        if self.is_cpu:
            names = {"records": "<i4", "arguments": "<i4", "starts": "<i4", "totals": "<i8"}
            self.tables = [[self._read(f"{n}.bin", kind).tolist() for n, kind in names.items()]]
        else:
            words = self._read("tables.bin", "<i8").reshape(len(launches), -1).tolist()
            self.tables = [[row, row, row[:veus], row[veus : 2 * veus]] for row in words]

    def words(self) -> list[list[int]]:
        """Return, for each rOperator, the words that represent its arguments in the task table.

        On a CPU, an argument is one word, the index of its pointer among the distinct pointers, in
        the order of first use. On a GPU, an argument is two words: the buffer's index, and an
        offset in bytes.
        """
        words = self.pointers
        if self.is_cpu:  # numbers of distinct pointers, in the order in which they appear
            known = dict[tuple[int, ...], int]()
            words = np.array([known.setdefault((*w,), len(known)) for w in words.tolist()])
        return [words[a:b].ravel().tolist() for a, b in pairwise(self.first.tolist())]


def artifacts(file: zipfile.ZipFile) -> Iterator[Artifact]:
    """Yield all programs of an artifact's zip file.

    The manifest in the file names the folder of each program's members.

    Raises:
        ArtifactError: if the file has another format, or a version that is not supported.
    """
    manifest = json.loads(bytes(_read(file, "", "manifest.json")))
    if manifest["format"] != "rammer-mlir" or manifest["version"] not in (5, 6, 7, 8):
        raise ArtifactError("manifest.json: expected an artifact of version 5, 6, 7 or 8")
    if manifest["version"] == 5:
        constants = [[0, file.getinfo("constants.bin").file_size]]
        manifest |= {"folder": "", "constants": constants}
    several = {6: manifest.get("specializations"), 7: _programs(manifest.get("model"))}
    roots = several.get(manifest["version"], [manifest])
    nodes = [each for root in roots for each in (root, root.get("fallback")) if each is not None]
    # The loaders find a program by its folder: each program must have a folder of its own.
    if len({node["folder"] for node in nodes}) < len(nodes):
        raise ArtifactError("manifest.json: expected a folder for each program")
    yield from (Artifact(file, node) for node in nodes)


def _programs(node: Any) -> list[dict[str, Any]]:
    """Return the nodes of all programs of a composed model, from the node of the model."""
    if node is None or node["kind"] == "program":
        return [] if node is None else [node]
    models = [each["model"] for key in ("specializations", "entries") for each in node.get(key, [])]
    return [found for each in (*models, *node.get("parts", [])) for found in _programs(each)]
