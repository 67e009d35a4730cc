"""`rtask-winograd`: computes convolutions by Winograd's minimal filtering where it is faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.constant_pad import PAD
from rammer_mlir.passes.ir.entry import callers, computations, symbol_name
from rammer_mlir.passes.ir.outline import Outliner
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.winograd.blocked_convolution import read_convolution
from rammer_mlir.passes.winograd.choice import OUTPUTS, choose_form, forms
from rammer_mlir.passes.winograd.operators import WinogradOperators
from rammer_mlir.passes.winograd.tiles import EXPAND


@dataclass(frozen=True)
class Winograd(Pass):
    """Compute 3x3 convolutions of unit stride by F(4x4, 3x3) or F(2x2, 3x3), where that is faster.

    A large image is cut into strips (rows of tiles), and each rTask transforms a strip, multiplies
    the transformed strip by the transformed weights, and transforms the product back. For many
    channels, these three steps are separate rOperators, so that the transformed weights are read
    once (Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*). ``tile`` forces
    output tiles of 2x2 or 4x4 elements (0: whichever is faster). ``form`` forces ``strips`` (a
    single rOperator) or ``operators`` (three rOperators), where possible.
    """

    name: ClassVar[str] = "rtask-winograd"
    takes: ClassVar[Form | None] = Form.TENSORS

    tile: int = 0
    form: str = ""

    def check_options(self) -> None:
        """Raise an OptionError if ``tile`` is not 0, 2 or 4, or ``form`` is unknown."""
        if self.tile not in (0, *OUTPUTS):
            raise OptionError(
                f"{self.name}: tile: expected 0 or one of {OUTPUTS}, found {self.tile}"
            )
        if self.form not in ("", "strips", "operators"):
            raise OptionError(
                f"{self.name}: form: expected strips or operators, found '{self.form}'"
            )

    def run(self, module: ir.Module) -> None:
        """Replace rOperators that convolve blocks of channels by their fastest Winograd variant.

        An rOperator stays as it is if no variant is faster.
        """
        weights, outliner = DerivedWeights(module), Outliner(module)
        calls = callers(module)
        for function in list(computations(module)):
            if function.operation.regions[0].blocks:
                name = symbol_name(function)
                self._rewrite(function, calls.get(name, []), weights, outliner)
        weights.finish()

    def _rewrite(
        self,
        function: ir.OpView,
        calls: list[ir.Operation],
        weights: DerivedWeights,
        outliner: Outliner,
    ) -> None:
        """Replace ``calls``, the rOperators of a convolution's function, by a Winograd variant.

        Nothing changes if no variant is chosen, or if the weights of an rOperator are not constant.
        """
        convolution = read_convolution(function) if calls else None
        if convolution is None:
            return
        if any(call.operands[convolution.weight] not in weights for call in calls):
            return
        found = [
            form
            for form in forms(convolution)
            if self.tile in (0, form.filtering.outputs)
            and self.form in ("", "strips" if form.strips else "operators")
        ]
        form = choose_form(convolution, found, always=bool(self.tile or self.form))
        if form is None:
            return
        operators = WinogradOperators(convolution, form, weights, outliner)
        for call in calls:
            image = call.operands[convolution.image]
            operators.replace(call)
            call.erase()
            _erase_unused_padding(image)
        function.operation.erase()


def _erase_unused_padding(value: ir.Value) -> None:
    """Erase the ``tensor.pad`` that computes ``value``, if nothing uses ``value`` any more.

    ``value`` is the image of a replaced convolution. Reshapes between the ``tensor.pad`` and
    ``value`` are erased too. If the ``tensor.pad`` remained, the border of the padded image would
    be filled.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or any(True for _ in value.uses):
        return
    if owner.name in (PAD, EXPAND):
        source = owner.operands[0]
        owner.erase()
        _erase_unused_padding(source)
