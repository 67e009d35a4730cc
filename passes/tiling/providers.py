"""Inserts foreign rKernels: candidates that a provider offers for an rOperator.

An offer is a module with two operations: a function on tensors
``(rtask_id: index, inputs..., outputs...) -> outputs``, and the function's description, an
``rtask.kernel``. If the function is only a declaration, an ``rtask.module`` must define it, and the
description must refer to this ``rtask.module``. The description is verified like that of the
compiler's own rKernels: the boxes have to fit the arguments and cover each output exactly once.
Accesses outside of the boxes are not detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import EXTERNAL, External, read_external
from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.code_modules import adopt_module
from rammer_mlir.passes.ir.entry import symbol_name
from rammer_mlir.passes.ir.one_line import one_line
from rammer_mlir.passes.tiling.kernel import Computation
from rammer_mlir.support.failures import FAILURES
from rammer_mlir.support.plugins import Registry, check_name, check_plain_name, refuse


@dataclass(frozen=True)
class OfferedOperator:
    """An rOperator, as passed to a provider that may offer rKernels for it.

    Attributes:
        function: the ``func.func`` that computes the whole rOperator on tensors; the provider must
            not change it.
        inputs: the types of the function's arguments.
        outputs: the types of the function's results.
        target: the target of the rKernels, as ``--target`` names it.
    """

    function: ir.OpView
    inputs: tuple[ir.Type, ...]
    outputs: tuple[ir.Type, ...]
    target: str = "cpu"

    @property
    def kernel_type(self) -> ir.FunctionType:
        """The type of an rKernel's function: ``(rtask_id, inputs..., outputs...) -> outputs``."""
        index = ir.IndexType.get()
        return ir.FunctionType.get([index, *self.inputs, *self.outputs], list(self.outputs))


class KernelProvider(Protocol):
    """An object that offers rKernels for the rOperators that it supports."""

    name: ClassVar[str]
    """The name by which users choose the provider."""

    def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
        """Return a module for each offered rKernel; empty if the rOperator is not supported.

        The modules have to be in the MLIR context of ``operator.function``, which is the current
        context during the call.
        """
        ...


def _check(name: str, value: object) -> KernelProvider:
    given: Any = value() if isinstance(value, type) and hasattr(value, "offer") else value
    is_named = isinstance(getattr(given, "name", None), str)
    if not is_named or not callable(getattr(given, "offer", None)):
        refuse("an rKernel provider, with a name and a function offer(operator)", value)
    check_name(name, given.name)
    check_plain_name(name)
    return cast("KernelProvider", given)


KERNEL_PROVIDERS: Registry[KernelProvider] = Registry("rKernel provider", {}, _check, "rkernels")
"""The registered providers by name; none is built in."""


def register_rkernels(provider: KernelProvider) -> None:
    """Register a provider of rKernels under its name.

    Example::

        class Doubling:
            name = "doubling"
            def offer(self, operator: OfferedOperator) -> Sequence[ir.Module]:
                fits = operator.inputs == (ir.Type.parse("tensor<4x16xf32>"),)
                return [ir.Module.parse(TEXT)] if fits else []
        register_rkernels(Doubling())

    Raises:
        OptionError: if ``provider`` is not a ``KernelProvider``, or its name is taken.
    """
    KERNEL_PROVIDERS.register(getattr(provider, "name", ""), provider)


def offered_kernels(
    computation: Computation, provider: KernelProvider, target: str = "cpu"
) -> list[ir.OpView]:
    """Insert the rKernels that a provider offers, and return the ``rtask.kernel`` of each.

    The rKernels are inserted before the function of ``computation``.

    Args:
        computation: the rOperator on whole tensors.
        provider: the provider.
        target: the target of the rKernels, as ``--target`` names it.

    Raises:
        OperationError: if the provider fails, or an offer is not an rKernel of the rOperator.
    """
    function = computation.function
    operator = OfferedOperator(
        function,
        tuple(argument.type for argument in computation.block.arguments),
        tuple(value.type for value in computation.returned),
        target,
    )
    try:
        with function.operation.context, ir.Location.unknown():
            offered: Any = provider.offer(operator)
            offers = list(offered) if isinstance(offered, Iterable) else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    except OptionError as error:  # of ``external_rkernel``, which knows no provider
        raise OperationError(
            function, f"provider '{provider.name}': {error}; mend it, or leave it out"
        ) from error
    except RammerError:
        raise
    except FAILURES as error:
        raise OperationError(
            function,
            f"provider '{provider.name}' failed with {type(error).__name__}: {one_line(error)}; "
            "mend it, or leave it out",
        ) from error
    if offers is None:
        raise OperationError(
            function,
            f"provider '{provider.name}': expected a list of ir.Module, found "
            f"{type(offered).__name__}; mend it, or leave it out",
        )
    return [
        _Offer(operator, f"{provider.name}_{number}", module).adopt()
        for number, module in enumerate(offers)
    ]


_IN_IR = ["func.func", "rtask.kernel"]
_EXTERNAL = [*_IN_IR, "rtask.module"]
"""The sorted names of the operations of an offer in foreign code."""


@dataclass(frozen=True)
class _Offer:
    operator: OfferedOperator
    name: str
    module: Any

    def adopt(self) -> ir.OpView:
        """Copy the offered function and its description into the module of the rOperator.

        The copies stand before the rOperator's function; the copied function gets a new name.
        Return the copy of the description, an ``rtask.kernel``.

        Raises:
            OperationError: if the offer is not an rKernel of the rOperator.
        """
        kernel, description = self._checked()
        name = f"{symbol_name(self.operator.function)}_{self.name}"
        ip = ir.InsertionPoint(self.operator.function)
        external = read_external(description.operation)
        own = description.operation.clone(ip=ip)
        own.attributes["function"] = ir.FlatSymbolRefAttr.get(name)
        if external is not None:
            code = adopt_module(self._module_op(external), ip)
            own.attributes[EXTERNAL] = replace(external, module=code).as_attribute()
        copy = kernel.operation.clone(ip=ip)
        copy.attributes["sym_name"] = ir.StringAttr.get(name)
        copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        return own.opview

    def _checked(self) -> tuple[ir.OpView, ir.OpView]:
        if not isinstance(self.module, ir.Module):
            raise self._refused("an ir.Module", type(self.module).__name__)
        if self.module.context != self.operator.function.operation.context:
            raise self._refused("a module of the operator's context", "one of another context")
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            raise self._refused("a module that is valid", one_line(error)) from None
        ops = {op.operation.name: op for op in self.module.body.operations}
        names = sorted(op.operation.name for op in self.module.body.operations)
        if names not in (_IN_IR, _EXTERNAL):
            expected = "one func.func (with an rtask.module if it has no body) and its rtask.kernel"
            raise self._refused(expected, ", ".join(names) or "none")
        kernel = ops["func.func"]
        found = ir.TypeAttr(kernel.operation.attributes["function_type"]).value
        if found != self.operator.kernel_type:
            raise self._refused(str(self.operator.kernel_type), str(found))
        return kernel, ops["rtask.kernel"]

    def _module_op(self, external: External) -> ir.Operation:
        return ir.SymbolTable(self.module.operation)[external.module].operation

    def _refused(self, expected: str, found: str) -> OperationError:
        return OperationError(
            self.operator.function,
            f"rKernel '{self.name}' of a provider: expected {expected}, found {found}; mend it, or "
            "leave the provider out",
        )
