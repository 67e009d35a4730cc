"""Executes many iterations of a host program's loop by a single call of native code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.signature import TensorSpec
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.repetition import Moving

if TYPE_CHECKING:
    from rammer_mlir.hosted_models.loops import Loop

_CHUNK = 4096
"""Greatest number of iterations per native call, so that interrupts are handled soon."""

_CHUNK_BYTES = 1 << 28
"""Most bytes of the results of a native call's iterations, unless one iteration has more.

The memory is allocated before the call, even if the loop ends earlier.
"""


def repeat_natively(loop: Loop) -> None:
    """Run all remaining iterations of a loop in native code, or no iteration if that is impossible.

    Native code requires that all operands are arrays, that the body is a CPU program, and that the
    loop-carried states keep their dtypes and shapes.
    """
    operands = loop.operands()
    if not all(isinstance(value, np.ndarray) for value in operands):
        return
    with loop.body.program(operands) as model:
        if isinstance(model, Executable) and _keeps_shapes(loop, model):
            _Repetition(loop, model).run()


def _keeps_shapes(loop: Loop, model: Executable) -> bool:
    """Whether each state that the body returns has the dtype and shape of the state it received.

    ``model`` is the compiled body, whose signature has these dtypes and shapes.
    """
    first = 2 if loop.step.is_counted else 0
    count = len(loop.states)
    given = model.signature.inputs[first : first + count]
    made = model.signature.outputs[first // 2 : first // 2 + count]
    return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(given, made, strict=True))


class _Repetition:
    def __init__(self, loop: Loop, model: Executable) -> None:
        self._loop, self._model = loop, model
        counted = loop.step.is_counted
        outputs = model.signature.outputs
        self._condition = np.ones((), np.bool_) if counted else None
        self._true = np.ones((), np.bool_)
        states = outputs[int(counted) : int(counted) + len(loop.states)]
        # The first step reads the first of the two buffers, and writes the second.
        self._buffers = [
            (np.array(s, order="C"), _empty(o)) for s, o in zip(loop.states, states, strict=True)
        ]
        self._elements = outputs[int(counted) + len(loop.states) :]
        self._sources = [np.ascontiguousarray(source) for source in loop.sources]
        self._captured = [np.ascontiguousarray(value) for value in loop.captured]

    def run(self) -> None:
        loop = self._loop
        size = sum(spec.num_bytes for spec in self._elements)
        most = max(1, min(_CHUNK, _CHUNK_BYTES // max(1, size)))
        while loop.goes_on and (loop.most is None or loop.number < loop.most):
            left = most if loop.most is None else min(loop.most - loop.number, most)
            self._run_chunk(left)

    def _run_chunk(self, steps: int) -> None:
        loop = self._loop
        stacks = [np.empty((steps, *spec.shape), spec.dtype) for spec in self._elements]
        numbers = np.arange(loop.number, loop.number + steps, dtype=np.int64)
        inputs = [Moving.fixed(value) for value in self._captured]
        elements = [Moving.along(source, loop.number) for source in self._sources]
        states = [Moving(a, b, 0) for a, b in self._buffers]
        counted = [Moving.along(numbers, 0), Moving.fixed(self._true)]
        own = counted if loop.step.is_counted else []
        made = [Moving.fixed(self._condition)] if self._condition is not None else []
        made += [Moving(b, a, 0) for a, b in self._buffers]
        made += [Moving.along(stack, 0) for stack in stacks]
        taken = self._model.repeat(
            steps, [*own, *states, *elements, *inputs], made, self._condition
        )
        loop.number += taken
        # After an odd number of steps, the last states are in the second buffers.
        if taken % 2:
            self._buffers = [(b, a) for a, b in self._buffers]
        loop.states = [a for a, _ in self._buffers]
        for collected, stack in zip(loop.stacks, stacks, strict=True):
            collected.append(stack[:taken])
        loop.goes_on = self._condition is None or bool(self._condition)


def _empty(spec: TensorSpec) -> NDArray[Any]:
    return np.empty(spec.shape, spec.dtype)
