"""Cases of damaged artifacts: each is refused in one line, or computes the original's results."""

from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

import rammer_mlir
from rammer_mlir.checker import verify
from rammer_mlir.errors import ArtifactError, RammerError
from tests.fuzz.arrays import Array, feeds_of
from tests.fuzz.case import Case, Json, Problem

MODELS = (
    """<ir_version: 9, opset_import: ["": 21]> g (float[8,6] x) => (float[8,5] y) <float[6,5] w>
    { t = MatMul(x, w) y = Softmax(t) }""",
    """<ir_version: 9, opset_import: ["": 21]> g (float[d4,6] x) => (float[d4,5] y) <float[6,5] w>
    { t = MatMul(x, w) y = Relu(t) }""",
    """<ir_version: 9, opset_import: ["": 21]> g (float[1,700] x) => (float[1,600] y)
    <float[700,600] w> { t = MatMul(x, w) u = Tanh(t) v = Exp(u) y = Add(t, v) }""",
)
"""A small model, one with an open dimension, and one whose constants are mapped from the file."""

VALUES: tuple[Json, ...] = (None, -1, 0, 1, 1 << 70, 0.5, "x", [[]], {"a": 1}, False, [])


@dataclass(frozen=True)
class Whole:
    """An undamaged artifact: its content, and the outputs of its model by name."""

    content: bytes
    outputs: Mapping[str, Array]


def model_of(number: int) -> onnx.ModelProto:
    """Return the model with the index ``number`` in ``MODELS``, with random weights."""
    model = onnx.parser.parse_model(MODELS[number])
    shape = [dim.dim_value for dim in model.graph.value_info[0].type.tensor_type.shape.dim]
    weight = np.random.default_rng(number).standard_normal(shape).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model


@lru_cache(8)
def whole(number: int) -> Whole:
    """Return the artifact of a model and its outputs; each model is compiled once."""
    model = model_of(number)
    feeds = feeds_of(model, 0)
    dims: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="rammer-fuzz-") as folder:
        path = Path(folder, "model.rammer")
        with rammer_mlir.compile(
            model, dims=dims, cache=False, num_veus=2, specializations=2
        ) as compiled:
            compiled.run(feeds)
            compiled.save(path)
        with rammer_mlir.load(path) as loaded:
            outputs = {name: np.array(value) for name, value in loaded.run(feeds).items()}
        return Whole(path.read_bytes(), outputs)


def make(seed: int) -> Case:
    """Return a case: the index of a model in ``MODELS``, and the edits that damage its artifact."""
    chance = random.Random(seed)
    edits: list[Json] = []
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind = chance.choices(EDITS, (6, 4, 1, 1, 1, 2, 2, 1, 6))[0]
        edits.append([kind, chance.randrange(1 << 30), chance.randrange(1 << 30)])
    number = chance.choices(range(len(MODELS)), (3, 3, 1))[0]
    return Case("artifact", seed, b"", {"artifact": number, "edits": edits})


EDITS = (
    "flip", "flip in a header", "cut", "insert", "repeat", "remove member", "swap members",
    "member of another", "change manifest",
)  # fmt: skip


def edited(content: bytes, edit: tuple[str, int, int]) -> bytes:
    """Return an artifact's content after one edit.

    ``edit`` is the kind of edit, and two large random numbers that choose the place and the change.
    """
    kind, first, second = edit
    place = first % max(len(content), 1)
    match kind:
        case "flip":
            return _with_byte(content, place, second % 256)
        case "flip in a header":
            return _with_byte(content, _header_place(content, first), second % 256)
        case "cut":
            return content[:place] if second % 2 else content[place:]
        case "insert":
            return content[:place] + second.to_bytes(4, "little") + content[place:]
        case "repeat":
            return content[:place] + content[place // 2 :]
        case _:
            return _rezipped(content, kind, first, second)


def _with_byte(content: bytes, place: int, value: int) -> bytes:
    return content[:place] + bytes([value]) + content[place + 1 :]


def _header_place(content: bytes, number: int) -> int:
    """Return the position of a byte in a ZIP header or in the manifest.

    ``number`` is a large random number that chooses the position.
    """
    marks = [b"PK\3\4", b"PK\1\2", b"PK\5\6", b"{"]
    start = content.find(marks[number % 4], (number >> 8) % max(len(content), 1))
    return min(max(start, content.rfind(b"PK\1\2"), 0) + (number >> 4) % 46, len(content) - 1)


def _rezipped(content: bytes, kind: str, first: int, second: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    names = sorted(members)
    one, two = names[first % len(names)], names[second % len(names)]
    match kind:
        case "remove member":
            del members[one]
        case "swap members":
            members[one], members[two] = members[two], members[one]
        case "member of another":
            with zipfile.ZipFile(io.BytesIO(whole(second % len(MODELS)).content)) as other:
                members[one] = other.read(other.namelist()[first % len(other.namelist())])
        case _:
            manifest = json.loads(members["manifest.json"])
            _change(manifest, first, VALUES[second % len(VALUES)])
            members["manifest.json"] = json.dumps(manifest, indent=1).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _change(manifest: Json, number: int, value: Json) -> None:
    places: list[tuple[Any, Any]] = []
    pending: list[Any] = [manifest]
    for found in pending:
        if isinstance(found, dict | list):
            keys: Any = list(found) if isinstance(found, dict) else range(len(found))
            places += [(found, key) for key in keys]
            pending += [found[key] for key in keys]
    owner, key = places[number % len(places)]
    if number % 7 == 0:
        del owner[key]
    else:
        owner[key] = value


_CANNOT_EDIT = (
    zipfile.BadZipFile, KeyError, ValueError, IndexError, EOFError, RuntimeError,
)  # fmt: skip
"""Errors of `zipfile` for a file that an earlier edit has damaged or marked as encrypted."""


def check(case: Case) -> Problem | None:
    """Load and run a damaged artifact, and verify its schedule; return the problem, if any."""
    number, edits = case.options["artifact"], case.options["edits"]
    assert isinstance(number, int) and isinstance(edits, list)
    original = whole(number)
    content = original.content
    for edit in edits:
        with contextlib.suppress(*_CANNOT_EDIT):
            content = edited(content, tuple(edit))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory(prefix="rammer-fuzz-") as folder:
        path = Path(folder, "model.rammer")
        path.write_bytes(content)
        return _load(path, feeds_of(model_of(number), 0), original) or _prove(path)


def _load(path: Path, feeds: Mapping[str, Array], original: Whole) -> Problem | None:
    try:
        with rammer_mlir.load(path) as loaded:
            found = loaded.run(feeds)
            if any(found[n].tobytes() != a.tobytes() for n, a in original.outputs.items()):
                return Problem("wrong numbers", "a damaged artifact was loaded and computes others")
    except ArtifactError as error:
        if "\n" in str(error) or str(path) not in str(error):
            return Problem("message", f"not one line with the file's name: {error}")
    return None


def _prove(path: Path) -> Problem | None:
    try:
        verify(path)
    except RammerError as error:
        if "\n" in str(error):
            return Problem("message", f"not one line: {error}")
    return None
