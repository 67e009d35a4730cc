"""Describe models of packages by text, such as ``x: page[n, 3, h, w]`` for an input."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from rammer_mlir.benchmarks.exports.spec import Case, Input, Spec
from rammer_mlir.errors import OptionError

_INPUT = re.compile(r"(?P<name>.+): (?P<kind>\w+)\[(?P<shape>[^]]*)\](?: (?P<high>[\w.]+))?")


@dataclass(frozen=True)
class PackagedModel:
    """An ONNX file in a wheel.

    Attributes:
        file: path in the wheel.
        inputs: a line for each input, in the form that ``input_of`` reads.
        cases: sizes of the open dimensions for each run, in the form that ``case_of`` reads.
    """

    file: str
    inputs: tuple[str, ...]
    cases: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file's name without suffix; for ``model.onnx``, its folder's name and "-model"."""
        path = PurePosixPath(self.file)
        return f"{path.parent.name}-model" if path.stem == "model" else path.stem


@dataclass(frozen=True)
class Package:
    """A version of a package on PyPI, and the ONNX models in its wheel."""

    name: str
    version: str
    models: tuple[PackagedModel, ...]

    def spec(self, model: PackagedModel) -> Spec:
        """Return the description of a model that ``rammer_mlir.benchmarks.exports`` reads.

        The description has the model's inputs, and the sizes of its open dimensions for each run.
        """
        inputs = tuple(map(input_of, model.inputs))
        cases = tuple(map(case_of, model.cases))
        return Spec(model.name, f"{self.name} {self.version}", inputs, cases)


def input_of(text: str) -> Input:
    """Return the input that ``text`` describes in the form ``name: kind[dimension, ...] high``.

    ``kind`` is the element type and distribution of the values, such as "page"; ``high`` is their
    bound or the constant value, and may be missing (see ``Input``).

    Raises:
        OptionError: if the text is not of this form.
    """
    found = _INPUT.fullmatch(text)
    if found is None:
        raise OptionError(f"input '{text}': expected 'name: kind[dimension, ...] high'")
    shape = [each.strip() for each in found["shape"].split(",") if each.strip()]
    high = found["high"] or "100"
    return Input(
        found["name"], tuple(map(_number_or_name, shape)), found["kind"], _number_or_name(high)
    )


def case_of(text: str) -> Case:
    """Return the sizes of open dimensions, keyed by name, from text such as ``n=1 h=64``."""
    pairs = (each.partition("=") for each in text.split())
    return {name: int(size) for name, _, size in pairs}


def _number_or_name(text: str) -> int | str:
    return int(text) if text.isdigit() else text
