"""List a module's functions, run a function, or compare results with IREE's, in a child process."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rammer_mlir
from rammer_mlir.benchmarks.foreign.parts import parts_of
from rammer_mlir.benchmarks.foreign.reference import run_reference
from rammer_mlir.errors import RammerError
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.passes.ir.element_types import named_dtype
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.programs.signature import Signature

Arrays = dict[str, NDArray[Any]]

TOLERANCES = {
    "float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-7,
    "complex64": 1e-3, "complex128": 1e-7,
}  # fmt: skip
"""Largest permitted difference of a result, by element type, relative to the result's scale.

The scale is the largest magnitude in the expected result, but at least 1. Other types must be
equal.
"""

_HIGHEST_INTEGER = 3
"""Integer inputs are less than this, since they often are indices of small dimensions."""


def main() -> int:
    """Do the task that ``sys.argv`` describes: list functions, run a function, or compare results.

    Print the answer as JSON, and return 0.
    """
    step, file, part, entry, folder, size, seed = sys.argv[1:]
    (content,) = (p.text for p in parts_of(Path(file)) if p.number == int(part))
    steps = {"list": _list, "run": _run, "compare": _compare}
    answer = steps[step](content, entry, Path(folder), int(size), int(seed))
    print(json.dumps(answer))
    return 0


def _list(content: str, _entry: str, _folder: Path, _size: int, _seed: int) -> Mapping[str, Any]:
    from rammer_mlir import dialects
    from rammer_mlir.bindings import ir
    from rammer_mlir.passes.ir.entry import functions, is_private, symbol_name

    context = ir.Context()
    dialects.register(context)
    try:
        with context:
            module = dialects.parse(content)
            found = [f for f in functions(module) if not is_private(f)]
            names = [symbol_name(f) for f in found if f.operation.regions[0].blocks]
    except (ir.MLIRError, RammerError) as error:
        return {"functions": [], "problem": str(error).splitlines()[-1][:300]}
    return {"functions": names}


def _run(content: str, entry: str, folder: Path, size: int, seed: int) -> Mapping[str, Any]:
    begin = time.perf_counter()
    try:
        exe = rammer_mlir.compile(f"{content}\n", entry=entry, cache=False)
        signature: Signature | OpenSignature = exe.signature
        inputs = random_inputs(signature, size, seed)
        compiled = time.perf_counter()
        outputs = exe.run(inputs)
        is_open = isinstance(exe, OpenModel)
        exe.close()
    except RammerError as error:
        return {"status": "refused", "detail": str(error)}
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return {"status": "internal error", "detail": f"{where}: {type(error).__name__}: {error}"}
    arrays = {f"in{n}": _stored(value) for n, value in enumerate(inputs.values())}
    arrays |= {f"out{n}": _stored(value) for n, value in enumerate(outputs.values())}
    np.savez(folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
    types = {"in": [str(v.dtype) for v in inputs.values()]}
    types["out"] = [str(v.dtype) for v in outputs.values()]
    (folder / "types.json").write_text(json.dumps(types))
    detail = f"{(compiled - begin):.1f} s to compile" + (", open dimensions" if is_open else "")
    return {"status": "ran", "detail": detail}


def _stored(value: NDArray[Any]) -> NDArray[Any]:
    """Return an array that an .npz file can store.

    Elements of types unknown to NumPy, such as bfloat16, become unsigned integers of the same bits.
    """
    return value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "V" else value


def random_inputs(signature: Signature | OpenSignature, size: int, seed: int) -> Arrays:
    """Return random inputs by name for a function with the given signature.

    Floats are normally distributed around 0, integers are small and not negative. Each open
    dimension has the size ``size``.
    """
    generator = np.random.default_rng(seed)
    inputs: Arrays = {}
    for tensor in signature.inputs:
        assert tensor.shape is not None and tensor.dtype is not None, "MLIR says both"
        shape = [dim if isinstance(dim, int) else size for dim in tensor.shape]
        if tensor.dtype.kind == "b":
            inputs[tensor.name] = generator.integers(0, 2, shape).astype(np.bool_)
        elif tensor.dtype.kind in "iu":
            integers = generator.integers(0, _HIGHEST_INTEGER, shape)
            inputs[tensor.name] = integers.astype(tensor.dtype)
        else:
            numbers = generator.standard_normal(shape)
            if tensor.dtype.kind == "c":
                numbers = numbers + 1j * generator.standard_normal(shape)
            inputs[tensor.name] = numbers.astype(tensor.dtype)
    return inputs


def _compare(content: str, entry: str, folder: Path, _size: int, _seed: int) -> Mapping[str, Any]:
    types = json.loads((folder / "types.json").read_text())
    with np.load(folder / "arrays.npz") as arrays:
        inputs = [_typed(arrays[f"in{n}"], name) for n, name in enumerate(types["in"])]
        found = [_typed(arrays[f"out{n}"], name) for n, name in enumerate(types["out"])]
    try:
        expected = run_reference(content, entry, inputs)
    except Exception as error:  # whatever the other compiler raises
        lines = str(error).splitlines() or [type(error).__name__]
        line = next((line for line in lines if "error" in line), lines[0])
        return {"status": "ran", "detail": f"the reference refuses it: {line[:200]}"}
    problem = difference(found, expected)
    return {"status": "wrong", "detail": problem} if problem else {"status": "right", "detail": ""}


def _typed(value: NDArray[Any], name: str) -> NDArray[Any]:
    dtype = named_dtype(name)
    return value.view(dtype) if dtype.kind == "V" else value


def difference(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> str:
    """Return a description of how results differ from the expected ones; empty if they agree.

    Results agree if their counts, shapes, infinities and NaNs are equal, and no error exceeds the
    tolerance of the element type in ``TOLERANCES``. An error is divided by the largest expected
    magnitude of its result if this is above 1.
    """
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape:
            return f"result {number}: shape {a.shape}, expected {b.shape}"
        tolerance = TOLERANCES.get(str(a.dtype), 0.0)
        kind = np.complex128 if a.dtype.kind == "c" else np.float64
        x, y = np.asarray(a, kind), np.asarray(b, kind)
        finite = np.isfinite(y)
        if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return f"result {number}: other infinities or NaN"
        scale = max(1.0, float(np.abs(y[finite]).max(initial=0)))
        error = float(np.abs(x[finite] - y[finite]).max(initial=0)) / scale
        if not error <= tolerance:
            return f"result {number}: error {error:.3g}, expected at most {tolerance:g}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
