"""List the tests of ``onnx.backend.test`` as models with inputs and expected outputs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import numpy_helper

if TYPE_CHECKING:
    from onnx.backend.test.case.test_case import TestCase

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
"""Kinds of tests whose models and data the onnx package includes."""

DataSet = tuple[Sequence[object], Sequence[object]]
"""Inputs and expected outputs, by position: arrays, lists of arrays, or None."""

_ONNX_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Case:
    """A test of ONNX's backend test suite.

    Attributes:
        name: name of the test, unique among all kinds.
        kind: kind of test in the suite, such as "node" for a single operator; one of ``KINDS``.
        relative: relative tolerance of the outputs.
        absolute: absolute tolerance of the outputs.
        node: the test with its model and data, for the kind ``node``; else None.
        path: a file or folder with the model and data, for the other kinds; else None.
    """

    name: str
    kind: str
    relative: float
    absolute: float
    node: TestCase | None = field(default=None, repr=False)
    path: Path | None = None

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The ONNX model of the test."""
        if self.node is not None:
            assert self.node.model is not None
            return self.node.model
        assert self.path is not None
        return onnx.load(self.path if self.path.is_file() else self.path / "model.onnx")

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the model's operators without repetition, in the order of their first nodes."""
        return tuple(dict.fromkeys(node.op_type for node in self.model.graph.node))

    @property
    def domain(self) -> str:
        """The domain of the model's first node that is not in one of ONNX's domains; else ""."""
        nodes = self.model.graph.node
        return next((node.domain for node in nodes if node.domain not in _ONNX_DOMAINS), "")

    def data_sets(self) -> Iterator[DataSet]:
        """Yield the inputs and the expected outputs of each data set of the test.

        Inputs and outputs are in the order in which the model declares them.
        """
        if self.node is not None:
            for inputs, outputs in self.node.data_sets or ():
                yield list(map(_normalized, inputs)), list(map(_normalized, outputs))
        elif self.kind == "light":
            yield _light_data(self.model, self.path or Path())
        else:
            for folder in sorted((self.path or Path()).glob("test_data_set*")):
                yield _stored_data(self.model, folder)


def suite(only: str = "", kinds: Sequence[str] = KINDS) -> list[Case]:
    """Return the tests of the kinds ``kinds`` whose names contain ``only``.

    The first call takes some seconds.
    """
    cases = [case for kind in kinds for case in _cases(kind)]
    return [case for case in cases if only in case.name]


def _cases(kind: str) -> Iterator[Case]:
    if kind == "node":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from onnx.backend.test.loader import load_model_tests

            tests = load_model_tests(kind="node")
        for test in tests:
            yield Case(test.name, kind, test.rtol, test.atol, node=test)
        return
    data = Path(onnx.__file__).parent / "backend/test/data"
    if kind == "light":
        for path in sorted((data / "light").glob("*.onnx")):
            tolerances = _tolerances(data / "real" / path.stem.replace("light", "test", 1))
            yield Case(f"test_{path.stem}", kind, *tolerances, path=path)
        return
    for path in sorted((data / kind).iterdir()):
        if (path / "model.onnx").exists():
            yield Case(path.name, kind, *_tolerances(path), path=path)


def _tolerances(folder: Path) -> tuple[float, float]:
    """Return the relative and the absolute tolerance of the test in ``folder``.

    The folder's ``data.json`` states them. If it does not, return the suite's defaults.
    """
    path = folder / "data.json"
    stated = json.loads(path.read_text()) if path.exists() else {}
    return stated.get("rtol", 1e-3), stated.get("atol", 1e-7)


def _normalized(value: object) -> object:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _light_data(model: onnx.ModelProto, path: Path) -> DataSet:
    """Return the inputs and expected outputs of a test of the kind ``light``.

    The inputs have evenly spaced elements from 0 to below 1. The outputs are read from files beside
    ``path``, the file of the model.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs: list[object] = []
    for value in model.graph.input:
        if value.name not in weights:
            shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    outputs = [
        _read(path.with_name(f"{path.stem}_output_{number}.pb"), value.type)
        for number, value in enumerate(model.graph.output)
    ]
    return inputs, outputs


def _stored_data(model: onnx.ModelProto, folder: Path) -> DataSet:
    def read_all(what: str, values: Sequence[onnx.ValueInfoProto]) -> list[object]:
        count = len(list(folder.glob(f"{what}_*.pb")))
        return [_read(folder / f"{what}_{i}.pb", values[i].type) for i in range(count)]

    return read_all("input", model.graph.input), read_all("output", model.graph.output)


def _read(path: Path, kind: onnx.TypeProto) -> object:
    content = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))
