"""Runs a model step by step on the host; some of the steps call compiled parts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, NoReturn, cast

import numpy as np

from rammer_mlir.errors import InputError, OptionError, RammerError, TargetError
from rammer_mlir.hosted_models.interpreter import Interpreter
from rammer_mlir.hosted_models.padded import padded_keys
from rammer_mlir.hosted_models.parts import Part, Value
from rammer_mlir.hosted_models.steps_json import ArrayWriter, write_program
from rammer_mlir.hosted_models.values import host_value
from rammer_mlir.open_models.arrays import shapes_of
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.pool import Key
from rammer_mlir.open_models.specializer import Made
from rammer_mlir.open_models.tree import ComposedModel, Node, TreeWriter, summed_stats, write_tree
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.programs.host_program import (
    Call,
    Choose,
    Compute,
    Evaluate,
    HostProgram,
    Repeat,
    Step,
    results_of,
)
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.runtime.host_arrays import writable
from rammer_mlir.runtime.signatures import PemKey, signer_of
from rammer_mlir.support.paths import path_of


class HostedModel(ComposedModel):
    """A model whose control flow, shapes or sizes depend on data.

    The host executes the steps of a host program, which call compiled parts. A part whose shapes
    become known only during a run is compiled at its first use.
    """

    def __init__(
        self,
        signature: OpenSignature,
        program: HostProgram,
        parts: Sequence[RunnableModel],
        made: Made,
    ) -> None:
        """Store a host program and its parts.

        Args:
            signature: inputs and outputs of the whole model.
            program: the steps of the host.
            parts: compiled models; ``Call.part`` in the program is an index into this sequence.
            made: target, policy and number of vEUs of the parts.
        """
        self._signature, self._made = signature, made
        self.program, self.parts = program, tuple(parts)
        self._interpreter = Interpreter(program, [Part(part) for part in parts])
        computes = [step for step in program.steps if isinstance(step, Compute)]
        self._checked: list[tuple[str, tuple[int, ...], Any]] = []
        self._is_closed = False
        self._fresh = frozenset(name for step in computes for name in results_of(step))

    @property
    def models(self) -> Iterable[RunnableModel]:
        """The compiled parts."""
        return self.parts

    @property
    def signature(self) -> OpenSignature:
        """Names, shapes and dtypes of inputs and outputs.

        A symbol in a shape is a size that becomes known in a run.
        """
        return self._signature

    @property
    def input_names(self) -> Sequence[str]:
        """Names of the inputs, in the model's order."""
        return self.program.inputs

    @property
    def target(self) -> str:
        """Target of all parts, for example ``cpu`` or ``nvvm:sm_90``."""
        return self._made.target

    @property
    def policy(self) -> str | None:
        """Name of the policy that schedules each part; None if unknown."""
        return self._made.policy

    @property
    def num_veus(self) -> int:
        """Number of vEUs that run each part."""
        return self._made.num_veus

    @property
    def summary(self) -> str:
        """The steps of the host as text for users, one line for each step."""
        return "\n".join(f"host             {_text(step)}" for step in self.program.steps)

    @property
    def stats(self) -> dict[str, Any]:
        """Compile statistics, such as seconds per stage, summed over the parts in memory."""
        return summed_stats(self.parts)

    def run(self, feeds: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the model.

        Args:
            feeds: values by input name, with the dtypes and shapes of the signature: arrays, lists
                or tuples of arrays for sequences, and None for absent optional values.
            out: by output name, arrays into which outputs are written. New arrays are allocated for
                the other outputs.

        Returns:
            Outputs by name, in the signature's order: the arrays of ``out``, or new arrays; lists
            of arrays for sequences.

        Raises:
            InputError: if inputs do not match the signature, with all mismatches; or if an operator
                is not defined for its operands' values, with the operator's node.
            RammerError: if a part cannot be compiled for the shapes that occur.
            TargetError: if the model is closed.
        """
        if self._is_closed:
            raise TargetError("the model is closed: compile or load it again")
        if out is not None and not isinstance(cast("object", out), Mapping):
            raise InputError(
                f"outputs: expected a mapping from names to arrays, found {type(out).__name__}"
            )
        self._check(feeds)
        given = {t.name: host_value(t, feeds[t.name]) for t in self._signature.inputs}
        found = dict(zip(self.program.outputs, self._interpreter.run(given), strict=True))
        for name, value in found.items():
            if name not in self._fresh:  # it may alias an input
                found[name] = _copied(value)
        return found if out is None else found | _written(found, out)

    def _check(self, feeds: Mapping[str, Any]) -> None:
        """Check names, dtypes and shapes of the inputs against the signature.

        Nothing is checked if names, dtypes and shapes are the same as in the last run.
        """
        try:
            key = [(name, value.shape, value.dtype) for name, value in feeds.items()]
        except AttributeError:  # a sequence, or not an array
            key = []
        if not key or key != self._checked:
            shapes_of(self._signature, feeds)
            self._checked = key

    def record(self, feeds: Mapping[str, Any], title: str = "measured") -> NoReturn:
        """Raise ``OptionError``: a timeline shows a single program, and the model has several.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            "timeline: expected one program, found a model that the host runs in parts, because "
            "data decides what runs, or how large it is; leave it out"
        )

    def prepare(self, most: int | None = None) -> list[str]:
        """Compile each part whose input shapes are known before a run.

        Such parts are branches and loop bodies with known shapes, and parts whose data-dependent
        sizes are padded to a few compiled sizes.

        Args:
            most: upper bound of data-dependent sizes; None if the user gives none. If the compiler
                found another bound for a part, the smaller bound applies.

        Returns:
            The reasons why parts cannot be compiled before a run, one for each part. Branches and
            loop bodies with unknown shapes have no entry. A reason is not an error: a branch that
            is never taken need not fit the shapes of the inputs.

        Raises:
            OptionError: if ``most`` is not an integer of at least 0.
        """
        if most is not None:
            most = _size_bound(most)
        problems: list[str] = []
        for step in self.program.steps:
            for call in _calls(step):
                part = self.parts[call.part]
                if isinstance(part, OpenModel):
                    problems += _kept(part, step, call, most)
                problems += prepared(part, most)
        return problems

    def save(self, path: str | os.PathLike[str], *, sign: PemKey | None = None) -> None:
        """Write an artifact that contains the parts that are in memory: compiled or loaded so far.

        Args:
            path: the file.
            sign: an Ed25519 private key, as PEM bytes or the path of a PEM file, that signs the
                artifact; None for no signature.

        Raises:
            ArtifactError: if the file cannot be written.
            OptionError: if the path or key is invalid, no part is in memory, or a part is code for
                the emulator.
        """
        place = path_of(path, "save")
        write_tree(place, self, None if sign is None else signer_of(sign))

    def node(self, tree: TreeWriter) -> Node:
        """Add the parts in memory to the artifact content ``tree``; return the JSON description."""
        return {
            **self.described("host"),
            "program": write_program(self.program, ArrayWriter(tree.weights.place)),
            "parts": [tree.node(part) for part in self.parts],
        }

    def close(self) -> None:
        """Close all parts; the model cannot run afterwards."""
        self._is_closed = True
        for part in self.parts:
            part.close()


def prepared(model: RunnableModel, most: int | None = None) -> list[str]:
    """Compile the parts of a model's host programs before the model's first run.

    Args:
        model: a model with a host program, or with specializations in memory that have host
            programs. Nothing is compiled for other models.
        most: upper bound of data-dependent sizes, as in ``HostedModel.prepare``.

    Returns:
        The reasons why parts cannot be compiled before a run, as ``HostedModel.prepare`` returns.
    """
    if isinstance(model, HostedModel):
        return model.prepare(most)
    if not isinstance(model, OpenModel):
        return []
    with model.held() as held:
        return [problem for _, found in held for problem in prepared(found, most)]


def _size_bound(most: object) -> int:
    """Return an upper bound of sizes given by a user as an ``int``.

    Raises:
        OptionError: if ``most`` is not an integer of at least 0.
    """
    if isinstance(most, bool) or not isinstance(most, Integral) or most < 0:
        raise OptionError(f"most: expected an integer of at least 0, found {most!r}")
    return int(most)


def _calls(step: Step) -> Iterator[Call]:
    """Yield the calls of compiled parts in a step: one per branch of a choice, else at most one."""
    match step:
        case Compute(call):
            yield call
        case Choose(_, _, branches):
            yield from branches
        case Repeat():
            yield step.body
        case Evaluate():
            return


def _kept(part: OpenModel, step: Step, call: Call, most: int | None) -> list[str]:
    """Compile a part before the first run, and keep its specializations in memory.

    Nothing is compiled for a branch or loop body whose input shapes are unknown.

    Args:
        part: the part.
        step: the step of the host program that calls the part.
        call: the call in this step; ``call.shapes`` are the part's input shapes, if they are known.
        most: upper bound of data-dependent sizes; None if the user gives none.

    Returns:
        A list with the reason why the part cannot be compiled before a run; empty if there is none.
    """
    keys: list[Key] = [] if call.shapes is None else [call.shapes]
    if isinstance(step, Compute):
        if step.padding is None:
            return [f"part {call.part}{_sizes_text(step)}"] if step.obstacle else []
        keys = padded_keys(part, step.padding, most)
        if not keys:
            return [f"part {call.part}: the greatest of its sizes is not known: give `most`"]
    try:
        part.keep(keys)
    except RammerError as error:
        return [str(error)]
    return []


def _text(step: Step) -> str:
    """Return a line of text that describes a step for users."""
    names = ", ".join(results_of(step))
    match step:
        case Compute(call):
            return f"part {call.part} computes {names}{_sizes_text(step)}"
        case Evaluate():
            return f"{step.kind} '{step.name}' gives {names}"
        case Choose(name, condition, (then, otherwise), _):
            return f"'{name}': part {then.part} if {condition}, else part {otherwise.part}"
        case Repeat():
            return f"'{step.name}' repeats part {step.body.part}"


def _sizes_text(step: Compute) -> str:
    """Return a clause for messages about the data-dependent sizes of the part that a step calls.

    The clause names the inputs whose sizes are padded, or the reason why sizes cannot be padded. It
    is empty if all sizes are static.
    """
    if step.padding is not None:
        names = ", ".join(each.name for each in step.padding.inputs if each.axes)
        most = step.padding.most
        return f", sizes of {names} are padded" + ("" if most is None else f", {most} at most")
    return f", each size is compiled: {step.obstacle} forbids padding" if step.obstacle else ""


def _copied(value: Value) -> Value:
    if isinstance(value, list):
        return [each.copy() for each in value]
    return None if value is None else np.array(value, order="C")


def _written(found: Mapping[str, Value], out: Mapping[str, Any]) -> dict[str, Any]:
    """Copy outputs into the caller's arrays ``out``; return these arrays by output name.

    ``found`` has the outputs by name.

    Raises:
        InputError: if ``out`` names an output that does not exist, or an array in ``out`` does not
            have the shape and dtype of its output.
    """
    for name, given in out.items():
        if given is None:  # as without an array
            continue
        if name not in found:
            known = ", ".join(f"'{known}'" for known in found)
            raise InputError(f"unknown output '{name}': expected one of {known}")
        value = found[name]
        if not isinstance(value, np.ndarray):
            raise InputError(
                f"output '{name}': expected no array in 'out' for an output that is not a tensor"
            )
        array = writable(given, f"output '{name}'")
        if (np.shape(array), getattr(array, "dtype", None)) != (value.shape, value.dtype):
            raise InputError(
                f"output '{name}': expected {value.dtype} of shape {value.shape}, found "
                f"{getattr(array, 'dtype', type(array).__name__)} of shape {np.shape(array)}"
            )
        if not array.flags.writeable:
            raise InputError(f"output '{name}': expected a writable array, found a read-only one")
        array[...] = value
    return {name: given for name, given in out.items() if given is not None}
