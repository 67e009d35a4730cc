"""Defines host programs: the host's steps between the compiled parts of a model.

A model whose control flow, shapes or sizes depend on data is not a single program of static shapes.
The host runs the model's parts, evaluates operators that determine shapes, selects branches and
repeats loop bodies (RAMMER, section on dynamic graphs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.padding import Padding

Array = NDArray[Any]


@dataclass(frozen=True)
class Call:
    """A call of a part of a model; a part is compiled separately, with its own inputs and outputs.

    Attributes:
        part: index of the part among the model's parts.
        operands: names of the values for the part's inputs, in order. A loop body also has inputs
            that the loop supplies; they come first, and ``operands`` has only the captured values
            after them.
        shapes: shapes of all inputs at the first call; None if the compiler does not know them.
    """

    part: int
    operands: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Compute:
    """A step that runs a part and assigns the part's outputs to named values.

    Attributes:
        call: the call of the part.
        results: names of the values.
        padding: how data-dependent sizes are padded, so that fewer sizes are compiled; None if each
            size is compiled separately.
        obstacle: the reason why data-dependent sizes cannot be padded, for messages; empty if they
            are padded, or if all sizes are static.
    """

    call: Call
    results: tuple[str, ...]
    padding: Padding | None = None
    obstacle: str = ""


@dataclass(frozen=True)
class Evaluate:
    """A step that evaluates an operator of ONNX on the host.

    Attributes:
        name: name of the node.
        kind: the operator's name.
        attributes: the operator's attributes, as the NumPy evaluators expect them.
        operands: names of values; empty for omitted operands.
        results: names of values; empty for unused results.
    """

    name: str
    kind: str
    attributes: Mapping[str, Any]  # types follow the operator's schema
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Choose:
    """A step that runs one of two branches.

    Attributes:
        name: name of the node.
        condition: name of a value with a single element.
        branches: two calls: the first for a true condition, the second for a false condition.
        results: names of the values; empty for unused results.
    """

    name: str
    condition: str
    branches: tuple[Call, Call]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A tensor of which each iteration of a Scan reads the next slice along an axis.

    Attributes:
        value: name of the tensor.
        axis: the axis.
        is_reversed: whether the first iteration reads the last slice.
    """

    value: str
    axis: int
    is_reversed: bool = False


@dataclass(frozen=True)
class Stack:
    """A result of a loop, to which each iteration appends a slice along an axis.

    Attributes:
        value: name of the result; empty if unused.
        axis: the axis.
        is_reversed: whether the slice of the last iteration comes first.
        dtype: dtype of the result.
        element: shape of a slice, with 0 for unknown sizes. It determines the shape of the result
            if the loop has no iterations.
    """

    value: str
    axis: int
    is_reversed: bool
    dtype: np.dtype[np.generic]
    element: tuple[int, ...]


@dataclass(frozen=True)
class Repeat:
    """A step that repeats a body, with the semantics of ONNX's Loop and Scan.

    The body's inputs are, in this order: the iteration number and the condition (scalars, only in a
    Loop), the loop-carried states, a slice of each source, and the captured values. The body's
    outputs are: the condition (only in a Loop), the states, and a slice for each stack.

    Attributes:
        name: name of the node.
        is_counted: whether the node is a Loop.
        count: name of the maximum number of iterations; empty if unlimited.
        condition: name of the initial condition; empty if always true.
        states: names of the initial values of the loop-carried states.
        sources: tensors of which each iteration of a Scan reads a slice.
        body: call of the repeated part.
        results: names of the final states; empty for unused states.
        stacks: results that collect a slice from each iteration.
    """

    name: str
    is_counted: bool
    count: str
    condition: str
    states: tuple[str, ...]
    sources: tuple[Source, ...]
    body: Call
    results: tuple[str, ...]
    stacks: tuple[Stack, ...]


Step = Compute | Evaluate | Choose | Repeat


def operands_of(step: Step) -> Iterator[str]:
    """Yield the names of the values that a step reads."""
    match step:
        case Compute(call, _):
            yield from call.operands
        case Evaluate():
            yield from filter(None, step.operands)
        case Choose(_, condition, branches):
            yield condition
            for branch in branches:
                yield from branch.operands
        case Repeat():
            yield from filter(None, (step.count, step.condition, *step.states))
            yield from (source.value for source in step.sources)
            yield from step.body.operands


def results_of(step: Step) -> Iterator[str]:
    """Yield the names of the values that a step computes."""
    yield from filter(None, step.results)
    if isinstance(step, Repeat):
        yield from (stack.value for stack in step.stacks if stack.value)


@dataclass(frozen=True)
class HostProgram:
    """The steps that the host executes for a model, in order.

    A step reads values that earlier steps have computed, by name.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
        steps: the steps.
        constants: constant values by name.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, Array] = field(default_factory=dict[str, "np.ndarray[Any, Any]"])
