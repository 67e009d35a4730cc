"""Defines ``Rule``: how a contrib operator is expanded, and which attributes are supported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx
from onnx import helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.contrib.call import Call, contrib_label

_ADVICE = "give the original model, from before its optimization"


@dataclass(frozen=True)
class Rule:
    """A function that expands an operator's nodes, and which operands and attributes it supports.

    Attributes:
        rewrite: emits the nodes that replace a node.
        inputs: names in order, separated by spaces. The suffix ``?`` marks an optional input, and
            ``!`` an input that must be omitted; the name ``*`` stands for any number of
            additional inputs.
        results: names in order, with the same suffixes; an unused result counts as omitted.
        attributes: names of supported attributes, separated by spaces.
        defaults: other attributes with their default values, by name; a node with any other value
            is refused.
    """

    rewrite: Callable[[Call], None]
    inputs: str
    results: str
    attributes: str = ""
    defaults: Mapping[str, int | float] = field(default_factory=dict[str, "int | float"])

    def check(self, call: Call) -> None:
        """Refuse a node whose operands or attributes the rule does not support.

        Raises:
            ModelError: if an input is missing.
            UnsupportedError: for the first unsupported input, result or attribute.
        """
        self._check_inputs(call)
        for name, result in zip(self.results.split(), call.node.output, strict=False):
            if name.endswith("!") and result:
                raise call.refusal(f"its result '{name[:-1]}' is used: {_ADVICE}")
        for attribute in call.node.attribute:
            self._check_attribute(call, attribute)

    def _check_inputs(self, call: Call) -> None:
        names = self.inputs.split()
        for number, name in enumerate(names):
            given = call.find(number)
            if name.endswith("!") and given:
                raise call.refusal(f"input '{name[:-1]}' is given: expected none; {_ADVICE}")
            if not given and name[-1] not in "?!*":
                raise ModelError(
                    f"{contrib_label(call.node)} is not valid: expected input '{name}', found none"
                )
            if given and call.is_string(number):
                raise call.refusal(f"input '{name.rstrip('?*')}' holds strings: expected numbers")
        if len(call.node.input) > len(names) and names[-1] != "*":
            raise ModelError(
                f"{contrib_label(call.node)} is not valid: expected at most {len(names)} inputs, "
                f"found {len(call.node.input)}"
            )

    def _check_attribute(self, call: Call, attribute: onnx.AttributeProto) -> None:
        name = attribute.name
        if name in self.defaults:
            value, wanted = helper.get_attribute_value(attribute), self.defaults[name]
            if value != wanted:
                raise call.refusal(
                    f"attribute '{name}': expected {wanted}, found {value}; {_ADVICE}"
                )
        elif name not in self.attributes.split():
            raise call.refusal(f"attribute '{name}' is not known: {_ADVICE}")
