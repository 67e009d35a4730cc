"""Executes loops in host programs.

If the body is a single CPU program, and the loop-carried states keep their shapes, native code runs
the iterations. The states then alternate between two buffers. The native code reads the slices of a
Scan's inputs in place, and writes each iteration's slices of the outputs in place. In all other
cases, the interpreter calls the body once for each iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.hosted_models.parts import Part, Value
from rammer_mlir.hosted_models.repetition import repeat_natively
from rammer_mlir.programs.dimensions import shape_text
from rammer_mlir.programs.host_program import Repeat, Stack

_WORTH_STEPS = 4
"""Fewest iterations for which native code runs the loop.

Preparing the native code's arguments takes about as long as a call of the body.
"""


def repeat(
    step: Repeat, body: Part, values: Mapping[str, Value]
) -> tuple[list[Value], list[Value]]:
    """Run a loop; return its final states, and its stacks (results with a slice per iteration).

    Args:
        step: the loop.
        body: the compiled body.
        values: values of the host program by name, including the loop's operands.
    """
    loop = Loop(step, body, values)
    most = loop.most
    if loop.goes_on and (most is None or most >= _WORTH_STEPS):
        repeat_natively(loop)
    while loop.goes_on and (most is None or loop.number < most):
        loop.take_step()
    return loop.finish()


class Loop:
    """The state of a running loop.

    Attributes:
        step: the step of the host program.
        body: the compiled body.
        most: greatest number of iterations; None without a limit.
        number: number of iterations completed so far.
        states: loop-carried values after these iterations.
        captured: values that every iteration reads.
        sources: arrays of which iteration ``i`` reads index ``i`` along the first axis.
        stacks: for each stack, a list of arrays whose concatenation along the first axis has one
            slice for each completed iteration.
        goes_on: whether the loop's condition is true.
    """

    def __init__(self, step: Repeat, body: Part, values: Mapping[str, Value]) -> None:
        """Initialize the loop; ``values`` are the values of the host program, by name."""
        self.step, self.body = step, body
        self.captured = [values[name] for name in step.body.operands]
        self.states: list[Value] = [values[name] for name in step.states]
        self.sources: list[NDArray[Any]] = []
        for source in step.sources:
            elements = np.moveaxis(values[source.value], source.axis, 0)
            self.sources.append(elements[::-1] if source.is_reversed else elements)
        lengths = {len(source) for source in self.sources}
        if len(lengths) > 1:
            raise InputError(
                f"'{step.name}' (Scan): expected sequences of equal length, found lengths "
                f"{', '.join(map(str, sorted(lengths)))}; change the model's inputs"
            )
        self.most = self._most(values)
        self.number = 0
        self.stacks: list[list[NDArray[Any]]] = [[] for _ in step.stacks]
        self.goes_on = not step.condition or bool(np.asarray(values[step.condition]).any())

    def _most(self, values: Mapping[str, Value]) -> int | None:
        if not self.step.is_counted:
            return len(self.sources[0])
        return int(np.asarray(values[self.step.count]).reshape(-1)[0]) if self.step.count else None

    def operands(self) -> list[Value]:
        """Return the operands of the body for the next iteration."""
        counted = [np.array(self.number, np.int64), np.array(True)] if self.step.is_counted else []
        elements = [np.ascontiguousarray(source[self.number]) for source in self.sources]
        return [*counted, *self.states, *elements, *self.captured]

    def take_step(self) -> None:
        """Run the body once; update the states, stacks, condition and number of iterations."""
        found = list(self.body.call(self.operands()))
        if self.step.is_counted:
            self.goes_on = bool(np.asarray(found.pop(0)).any())
        self.states = found[: len(self.states)]
        slices = zip(self.step.stacks, self.stacks, found[len(self.states) :], strict=True)
        for stack, elements, value in slices:
            self._check_slice(stack, elements, value)
            elements.append(value[np.newaxis])
        self.number += 1

    def _check_slice(
        self, stack: Stack, elements: Sequence[NDArray[Any]], value: NDArray[Any]
    ) -> None:
        """Check that an iteration's slice of a result has the shape of the slices before it.

        Args:
            stack: the result.
            elements: the slices of earlier iterations, stacked along the first axis.
            value: the slice of this iteration.

        Raises:
            InputError: if the shapes differ.
        """
        if elements and elements[0].shape[1:] != value.shape:
            kind = "Loop" if self.step.is_counted else "Scan"
            raise InputError(
                f"'{self.step.name}' ({kind}): expected slices of the same shape in all iterations "
                f"for the output '{stack.value}', found {shape_text(elements[0].shape[1:])} and, "
                f"in iteration {self.number}, {shape_text(value.shape)}; change the model's inputs"
            )

    def finish(self) -> tuple[list[Value], list[Value]]:
        """Return the loop's final states and its stacks.

        No final state shares memory with an initial state, even if the loop has no iterations.
        """
        states = self.states if self.number else [_copied(state) for state in self.states]
        pairs = zip(self.step.stacks, self.stacks, strict=True)
        return states, [_joined(stack, elements) for stack, elements in pairs]


def _copied(value: Value) -> Value:
    return value.copy() if isinstance(value, np.ndarray) else value


def _joined(stack: Stack, elements: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return a loop's result that stacks a slice of each iteration along an axis.

    Args:
        stack: axis, direction, dtype and slice shape of the result.
        elements: arrays whose concatenation along the first axis has one slice for each iteration;
            empty if the loop had no iterations.
    """
    if not elements:
        found: NDArray[Any] = np.zeros((0, *stack.element), stack.dtype)
    else:
        found = elements[0] if len(elements) == 1 else np.concatenate(elements)
    if stack.is_reversed:
        found = found[::-1]
    axis = stack.axis if stack.axis >= 0 else stack.axis + found.ndim
    return np.ascontiguousarray(np.moveaxis(found, 0, axis))
