"""Wraps a compiled PyTorch module as a callable on tensors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

import rammer_mlir
from rammer_mlir.errors import InputError, ShapeError
from rammer_mlir.frontends.pytorch.conversion import convert
from rammer_mlir.frontends.pytorch.interface import Constant, Interface
from rammer_mlir.frontends.pytorch.package import TorchModule, pytorch
from rammer_mlir.pytorch.results import check_results
from rammer_mlir.pytorch.structures import restorer, takes_only_tensors
from rammer_mlir.pytorch.tensors import array_of, real_pairs, tensor_of
from rammer_mlir.runtime.compiled import RunnableModel


def compile(
    model: TorchModule, inputs: object = None, dynamic_shapes: object = None, **options: Any
) -> TorchModel:
    """Compile a PyTorch module to a callable with the module's arguments and results.

    Args:
        model: a ``torch.nn.Module`` in evaluation mode, or a ``torch.export.ExportedProgram``; not
            modified. This call reads the model's weights. If the model has open dimensions, each
            later compilation of a specialization reads them again.
        inputs: example inputs of a module: a tuple of positional arguments, or a dict of named
            arguments.
        dynamic_shapes: open dimensions, as in ``torch.export.export``.
        options: options of ``rammer_mlir.compile``.

    Raises:
        RammerError: for the same reasons as ``rammer_mlir.compile``.
    """
    program = convert(model, inputs, dynamic_shapes)
    made = rammer_mlir.compile(cast("Any", program.source), **options)
    check_results(made.signature, program.interface.results)
    return TorchModel(made, program.interface)


class TorchModel:
    """A compiled PyTorch module, which is called with tensors.

    A call computes on CPU tensors, without gradients. Dense row-major inputs are read in place;
    results are in new memory.
    """

    def __init__(self, model: RunnableModel, interface: Interface) -> None:
        """Wrap ``model``, which takes and returns arrays by name, as a callable on tensors.

        ``interface`` has the names of the tensors in the structure of arguments and results.
        """
        self._model, self._interface = model, interface
        self._names: tuple[str, ...] = tuple(next(iter(self._keywords(interface.in_spec)), ()))
        self._is_flat = takes_only_tensors(interface)
        self._restore = restorer(interface.out_spec)

    @property
    def model(self) -> RunnableModel:
        """The underlying model; it takes and returns NumPy arrays by name."""
        return self._model

    def __repr__(self) -> str:
        return f"TorchModel({self._model!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on tensors, given in the structure of the example inputs.

        Returns:
            The results as tensors, in the structure that the module returns.

        Raises:
            InputError: if the arguments do not match the example inputs' structure.
            RammerError: if the tensors' shapes or dtypes do not match the model's inputs, or the
                model cannot be compiled for these shapes.
        """
        return self.restored(self._model.run(self.feeds(args, kwargs)))

    def run_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """Run on flattened arguments (leaves of the pytree), without a check of their structure.

        Returns:
            The flattened results.

        Raises:
            RammerError: for the same reasons as ``__call__``.
        """
        return self._leaves_of(self._model.run(self._feeds(leaves)))

    def feeds(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call of the module as arrays by input name.

        ``args`` are the positional and ``kwargs`` the keyword arguments.

        Raises:
            InputError: if the structure of the arguments, or a constant argument, differs from the
                example inputs.
            ShapeError: if a size is outside of the range for which the exported program is valid.
        """
        tensor = pytorch().Tensor
        if self._is_flat and not kwargs and len(args) == len(self._interface.inputs):
            if all(isinstance(each, tensor) for each in args):
                return self._feeds(args)
        pytree = pytorch().utils._pytree
        ordered = {name: kwargs[name] for name in self._names if name in kwargs}
        ordered.update({name: value for name, value in kwargs.items() if name not in ordered})
        leaves, spec = pytree.tree_flatten((args, ordered))
        expected = self._interface.in_spec
        if spec != expected:
            raise InputError(
                f"expected arguments in the structure {_shown(expected)} of the example inputs, "
                f"found {_shown(spec)}; give the same positional and named arguments"
            )
        return self._feeds(leaves)

    def _feeds(self, leaves: Sequence[Any]) -> dict[str, Any]:
        feeds: dict[str, Any] = {}
        for leaf, value in zip(self._interface.inputs, leaves, strict=True):
            if not isinstance(leaf, Constant):
                # ONNX models take complex numbers as pairs.
                feeds[leaf] = array_of(leaf, real_pairs(value))
            elif type(value) is not type(leaf.value) or (
                value is not leaf.value and value != leaf.value
            ):  # 2 and 2.0 are equal, but give results of other types
                raise InputError(
                    f"expected the constant {leaf.value!r} of the example inputs, found {value!r}; "
                    "compile again for another value"
                )
        self._check_ranges(feeds)
        return feeds

    def restored(self, outputs: Mapping[str, Any]) -> Any:
        """Return the arrays ``outputs`` as tensors, in the structure of the module's result."""
        return self._restore(iter(self._leaves_of(outputs)))

    def _leaves_of(self, outputs: Mapping[str, Any]) -> list[Any]:
        return [
            leaf.value if isinstance(leaf, Constant) else self._tensor(leaf, outputs[leaf])
            for leaf in self._interface.outputs
        ]

    def _tensor(self, name: str, array: Any) -> Any:
        found = tensor_of(array)
        expected = self._interface.results.get(name)
        is_pairs = expected is not None and expected.is_complex and not found.is_complex()
        return pytorch().view_as_complex(found) if is_pairs else found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model as an artifact.

        ``rammer_mlir.load`` returns a model that takes and returns arrays by name instead of
        tensors.
        """
        self._model.save(path)

    def close(self) -> None:
        """End the model's threads; the model cannot run afterwards."""
        self._model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_ranges(self, feeds: Mapping[str, Any]) -> None:
        for name, symbols in self._interface.symbols.items():
            shape = feeds[name].shape
            for at, symbol in symbols.items():
                allowed = self._interface.ranges.get(symbol)
                size = shape[at] if at < len(shape) else None
                if allowed is None or size is None:
                    continue
                if size < allowed.least or (allowed.most is not None and size > allowed.most):
                    raise ShapeError(
                        f"input '{name}': expected {allowed} for dimension '{symbol}', found "
                        f"{size}; export the module for other sizes"
                    )

    @staticmethod
    def _keywords(spec: Any) -> list[list[str]]:
        """Return ``[names]``, where ``names`` lists the keyword arguments of a call.

        ``spec`` is torch's structure (TreeSpec) of positional and keyword arguments: ``f(x,
        scale=s)`` gives ``[["scale"]]``. If ``spec`` is another structure, the result is ``[]``.
        """
        children = spec.children() if callable(getattr(spec, "children", None)) else []
        return [list(children[1].context)] if len(children) == 2 else []


def _shown(spec: Any) -> str:
    """Return torch's structure (TreeSpec) as text, such as ``((*,), {'mask': *})``."""
    pytree = pytorch().utils._pytree
    marks = pytree.tree_unflatten(["*"] * spec.num_leaves, spec)
    return str(marks).replace("'*'", "*")
