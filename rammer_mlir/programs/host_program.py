"""Host programs: what the host does around several compiled parts of a model.

A model whose control flow, shapes or sizes depend on data is no single program of static shapes.
The host runs its parts, evaluates what decides about shapes, chooses branches and repeats bodies
of loops, as RAMMER's section on dynamic graphs has it.
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
    """A part of the model, and what it is given.

    Attributes:
        part: its number among the program's parts.
        operands: names of the values for its inputs, in order; of a branch or the body of a loop,
            those that it captures, which follow the loop's own.
        shapes: of all its inputs at the first call, where the compiler knows them.
    """

    part: int
    operands: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Compute:
    """Run a part, whose outputs become the results.

    Attributes:
        call: the part.
        results: names.
        padding: how sizes that data decides are padded; None where each is compiled as it is.
        obstacle: why they are not padded, for people; empty if they are, or there are none.
    """

    call: Call
    results: tuple[str, ...]
    padding: Padding | None = None
    obstacle: str = ""


@dataclass(frozen=True)
class Evaluate:
    """Evaluate an operator on the host.

    Attributes:
        name: of its node.
        kind: the operator's name.
        attributes: as evaluators take them.
        operands: names of values; empty for those left out.
        results: likewise.
    """

    name: str
    kind: str
    attributes: Mapping[str, Any]  # each of the type that the operator says
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Choose:
    """Run one of two branches.

    Attributes:
        name: of the node.
        condition: name of a value of one element.
        branches: what runs if it is true, and if it is not.
        results: names; empty for those that nobody uses.
    """

    name: str
    condition: str
    branches: tuple[Call, Call]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """What a loop takes one element of in each step.

    Attributes:
        value: its name.
        axis: along which the elements are.
        is_reversed: whether the last one is taken first.
    """

    value: str
    axis: int
    is_reversed: bool = False


@dataclass(frozen=True)
class Stack:
    """What a loop makes one element of in each step.

    Attributes:
        value: name of the result, empty if nobody uses it.
        axis: along which the elements are joined.
        is_reversed: whether the last element comes first.
        dtype: its element type.
        element: shape of an element, with 0 for sizes that are not known, for loops without a step.
    """

    value: str
    axis: int
    is_reversed: bool
    dtype: np.dtype[np.generic]
    element: tuple[int, ...]


@dataclass(frozen=True)
class Repeat:
    """Run a body again and again, as ONNX's Loop and Scan do.

    The body's inputs are the number of the step and the condition (scalars, of a Loop only), the
    states, an element of each source, and what it captures. Its outputs are the condition (of a
    Loop only), the states, and an element of each stack.

    Attributes:
        name: of the node.
        is_counted: whether it is a Loop.
        count: name of the greatest number of steps; empty if there is none.
        condition: name of whether there is a first step; empty if there is one.
        states: names of the values that the first step begins with.
        sources: of a Scan.
        body: what is repeated.
        results: names of the last states; empty for those that nobody uses.
        stacks: likewise.
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
    """What the host does, in order.

    Attributes:
        inputs: names of the values that a run is given.
        outputs: names of those that it returns.
        steps: each computes values that later ones read.
        constants: values by name.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, Array] = field(default_factory=dict[str, "np.ndarray[Any, Any]"])
