"""Cases of random valid models: they are compiled, run, and compared with ONNX Runtime."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import onnx

import rammer_mlir
from rammer_mlir.errors import (
    ModelError,
    RammerError,
    ShapeError,
    TargetError,
    UnsupportedError,
)
from tests.fuzz.arrays import Array, feeds_of, is_float
from tests.fuzz.case import Case, Json, Problem
from tests.fuzz.graph import RandomGraph
from tests.fuzz.operators import elementwise, indexing, shaping, structured
from tests.fuzz.oracle import Rejected, run_reference, run_wide, spread

FAMILIES = (
    *((elementwise.OPERATORS,) * 2), *((shaping.OPERATORS,) * 2), indexing.OPERATORS,
    *((structured.OPERATORS,) * 3),
)  # fmt: skip

POLICIES = (*("wavefront", "sequential", "list", "ios") * 5, "auto")

_REACH = 12
"""Allowed deviation of a result, as a multiple of the deviation in runs with disturbed numbers.

A multiple is allowed since the order of sums is free.
"""

_CLOSE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Errors, divided by the largest element, that need no closer check, by element type."""


def random_model(seed: int) -> onnx.ModelProto:
    """Return a random model, which ``seed`` determines.

    Raises:
        Rejected: if the seed gives no model.
    """
    graph = RandomGraph(seed)
    wanted = graph.random.choice((1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6, 9, 14))
    for _ in range(3 * wanted + 6):
        try:
            graph.random.choice(graph.random.choice(FAMILIES))(graph)
            wanted -= 1
        except (Rejected, ValueError, IndexError):  # the choices do not fit each other
            continue
        if not wanted:
            break
    return graph.model()


def random_options(seed: int) -> dict[str, Json]:
    """Return random options of compilation by name: policy, number of vEUs, and Winograd."""
    chance = random.Random(seed)
    found: dict[str, Json] = {
        "policy": chance.choice(POLICIES), "num_veus": chance.choice((1, 2, 2, 3, 4, 7)),
    }  # fmt: skip
    if chance.random() < 0.2:
        found["winograd"] = False
    return found


def make(seed: int) -> Case:
    """Return a case: a random model with random options.

    Raises:
        Rejected: if the seed gives no model, or ONNX Runtime does not run it.
    """
    model = random_model(seed)
    run_reference(model, feeds_of(model, seed))
    return Case("model", seed, model.SerializeToString(), random_options(seed))


def compile_and_run(
    model: onnx.ModelProto, feeds: Mapping[str, Array], options: Mapping[str, Json]
) -> dict[str, Array]:
    """Compile a model, run it twice, check that both results are equal, and return the outputs.

    The second run would show a state that the first run leaves wrong.
    """
    compiled = rammer_mlir.compile(model, cache=False, specializations=2, **options)  # type: ignore
    with compiled:
        first = {name: np.array(value) for name, value in compiled.run(feeds).items()}
        second = compiled.run(feeds)
        for name, value in first.items():
            if value.tobytes() != second[name].tobytes():
                raise AssertionError(f"'{name}' differs between two runs of the same arrays")
    return first


def check(case: Case) -> Problem | None:
    """Compare a compiled model with ONNX Runtime, and where possible with float64.

    Returns the problem, if any.

    Raises:
        Rejected: if ONNX Runtime does not run the model.
    """
    model = onnx.ModelProto.FromString(case.model)
    feeds = feeds_of(model, case.seed)
    expected = run_reference(model, feeds)
    try:
        found = compile_and_run(model, feeds, case.options)
    except RammerError as error:
        return refusal(error)
    problem = different(model, feeds, expected, found, case.seed)
    wide = run_wide(model, feeds)
    if not wide:
        return problem
    # Outputs that float64 does not decide are left to ONNX Runtime.
    exact = different(model, feeds, expected | _narrow(wide, expected), found, case.seed)
    # Where the definition agrees with the compiler, ONNX Runtime is wrong.
    return exact and (problem or Problem("wrong numbers in float64", exact.text))


_LIMITS = (ModelError, ShapeError, TargetError, UnsupportedError)
"""Errors that state a limit of the compiler; another error is a fault of one of its passes."""


def refusal(error: RammerError) -> Problem:
    """Return the problem of a valid model for which the compiler raised ``error``.

    The problem is a refusal if the error states, in one line, a limit of the compiler. Any other
    error is a fault of the compiler.
    """
    if "\n" in str(error):
        return Problem("several lines", f"{type(error).__name__}: {error}")
    return Problem(type(error).__name__, str(error), refused=isinstance(error, _LIMITS))


def _narrow(wide: Mapping[str, Array], expected: Mapping[str, Array]) -> dict[str, Array]:
    with np.errstate(all="ignore"):
        return {name: value.astype(expected[name].dtype) for name, value in wide.items()}


def different(
    model: onnx.ModelProto, feeds: Mapping[str, Array], expected: Mapping[str, Array],
    found: Mapping[str, Array], seed: int,
) -> Problem | None:  # fmt: skip
    """Return the problem if results differ by more than rounding errors explain; else None.

    Args:
        model: the model.
        feeds: its inputs by name.
        expected: the reference's outputs by name.
        found: the outputs to check by name.
        seed: seed of the random disturbances that show how rounding errors grow.
    """
    suspicious: list[str] = []
    for name, wanted in expected.items():
        kinds = [f"{a.dtype}{list(a.shape)}" for a in (wanted, found[name])]
        if kinds[0] != kinds[1]:
            return Problem("wrong shape", f"'{name}': expected {kinds[0]}, found {kinds[1]}")
        if not _is_close(wanted, found[name]):
            suspicious.append(name)
    if not suspicious:
        return None
    reach = spread(model, feeds, seed)
    for name in suspicious:
        text = _beyond(expected[name], found[name], reach[name])
        if text:
            return Problem("wrong numbers", f"'{name}': {text}")
    return None


_LEAST = 1e-2
"""Least magnitude to which errors are relative: roundings within an operator may cancel."""


def _is_close(wanted: Array, found: Array) -> bool:
    if not is_float(wanted.dtype):
        return bool(np.array_equal(wanted, found))
    left, right = wanted.astype(np.float64), found.astype(np.float64)
    finite = np.abs(left[np.isfinite(left)])
    bound = _CLOSE[wanted.dtype.name]
    scale = float(finite.max(initial=_LEAST))
    return bool(np.allclose(right, left, bound / 10, bound * scale, equal_nan=True))


def _beyond(wanted: Array, found: Array, reach: Array) -> str | None:
    left, right = wanted.astype(np.float64), found.astype(np.float64)
    bound = _CLOSE.get(wanted.dtype.name, 0.0)
    scale = np.abs(left[np.isfinite(left)]).max(initial=_LEAST)
    # One element's deviation may be small by chance: neighbors count too.
    allowed = _REACH * np.maximum(reach, 0.5 * reach.max(initial=0)) + bound * scale
    wrong = ~(
        (np.abs(left - right) <= allowed) | (left == right) | (np.isnan(left) & np.isnan(right))
    )
    if not wrong.any():
        return None
    place = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return (
        f"{int(wrong.sum())} of {wrong.size} elements, at {list(place)} expected "
        f"{left[place]:.9g}, found {right[place]:.9g}, allowed {allowed[place]:.2g}"
    )
