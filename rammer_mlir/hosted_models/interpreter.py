"""Executes the steps of host programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rammer_mlir.errors import InputError
from rammer_mlir.evaluators.host_table import ALL_EVALUATORS
from rammer_mlir.evaluators.operation import NotFoldableError, Operation
from rammer_mlir.hosted_models.loops import repeat
from rammer_mlir.hosted_models.padded import run_padded
from rammer_mlir.hosted_models.parts import Part, Value
from rammer_mlir.programs.host_program import (
    Call,
    Choose,
    Compute,
    Evaluate,
    HostProgram,
    Repeat,
    operands_of,
)
from rammer_mlir.programs.padding import Padding

Values = dict[str, Value]


class Interpreter:
    """Executes a host program.

    Several threads may call ``run`` concurrently if the compiled parts permit concurrent runs.
    """

    def __init__(self, program: HostProgram, parts: Sequence[Part]) -> None:
        """Store a host program and its compiled parts; ``Call.part`` is an index into ``parts``."""
        self._program, self._parts = program, parts
        self._dead = _last_uses(program)

    def run(self, feeds: Mapping[str, Value]) -> list[Value]:
        """Run the program on ``feeds``, values by input name; return the outputs in order.

        Raises InputError if an operator that the host evaluates is not defined for its operands'
        values.
        """
        program = self._program
        # The empty name stands for an operand that a step leaves out.
        values: Values = {"": None, **program.constants}
        values.update((name, feeds[name]) for name in program.inputs)
        for step, dead in zip(program.steps, self._dead, strict=True):
            match step:
                case Compute(call, results, padding):
                    found = self._compute(call, padding, values)
                    values.update(zip(results, found, strict=True))
                case Evaluate():
                    values.update(zip(step.results, _evaluate(step, values), strict=True))
                case Choose(_, condition, branches, results):
                    branch = branches[0 if _is_true(values[condition]) else 1]
                    values.update(zip(results, self._call(branch, values), strict=True))
                case Repeat():
                    self._repeat(step, values)
            values[""] = None  # a result without a name is no operand
            for name in dead:
                del values[name]
        return [values[name] for name in program.outputs]

    def _compute(self, call: Call, padding: Padding | None, values: Values) -> Sequence[Value]:
        if padding is None:
            return self._call(call, values)
        return run_padded(self._parts[call.part], padding, [values[n] for n in call.operands])

    def _call(self, call: Call, values: Values) -> Sequence[Value]:
        return self._parts[call.part].call([values[name] for name in call.operands])

    def _repeat(self, step: Repeat, values: Values) -> None:
        body = self._parts[step.body.part]
        results, stacks = repeat(step, body, values)
        values.update(zip(step.results, results, strict=True))
        values.update(zip((stack.value for stack in step.stacks), stacks, strict=True))


def _is_true(value: Value) -> bool:
    return bool(np.asarray(value).any())


def _evaluate(step: Evaluate, values: Values) -> Sequence[Value]:
    """Return the results of an operator that the host evaluates with NumPy.

    Raises:
        InputError: if the operator is not defined for these values.
    """
    operands = [values[name] for name in step.operands]
    operation = Operation(step.kind, step.attributes, operands, len(step.results))
    try:
        with np.errstate(all="ignore"):
            found = list(ALL_EVALUATORS[step.kind](operation))
    except (NotFoldableError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        said = f" ({error})" if str(error) else ""
        raise InputError(
            f"'{step.name}' ({step.kind}): expected operands that it is defined for, found others"
            f"{said}; change the model's inputs"
        ) from error
    return found[: len(step.results)]


def _last_uses(program: HostProgram) -> list[list[str]]:
    """Return, for each step, the names of the values that this step reads and no later step does.

    ``run`` drops these values after the step. Inputs, outputs and constants are not among them.
    """
    kept = {*program.outputs, *program.inputs, *program.constants}
    last: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        last.update(dict.fromkeys(operands_of(step), number))
    return [
        [name for name, end in last.items() if end == number and name not in kept]
        for number in range(len(program.steps))
    ]
