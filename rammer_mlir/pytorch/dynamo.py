"""Implements the ``rammer`` backend of ``torch.compile``.

torch finds the backend by the entry point ``torch_dynamo_backends``. torch divides a function into
graphs. The backend compiles a graph at its first run with each combination of input shapes;
parameters and buffers become constants. If a graph cannot be compiled, the backend warns once, and
torch runs the graph.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, cast

from rammer_mlir.errors import OptionError, RammerError, UnsupportedError
from rammer_mlir.frontends.pytorch.package import pytorch
from rammer_mlir.options import DEFAULT_SPECIALIZATIONS
from rammer_mlir.pytorch.model import TorchModel, compile
from rammer_mlir.support.exact_key import exact_key
from rammer_mlir.support.log import LOGGER

_Signature = tuple[object, ...]


def rammer(graph: Any, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """Return a callable that runs a graph, and compiles it at the first call with each input shape.

    Args:
        graph: a ``torch.fx.GraphModule``.
        example_inputs: the graph's inputs, including parameters and buffers.
        given: the value of ``options=`` of ``torch.compile``: options of ``rammer_mlir.compile``,
            and two more options. ``specializations`` is the greatest number of combinations of
            shapes in memory. ``strict=True`` raises an error for a graph that cannot be compiled,
            instead of running the graph by torch.

    Raises:
        OptionError: if an option is unknown or invalid.
    """
    options = {**given, **(given.get("options") or {})}
    options.pop("options", None)
    if options.pop("mode", None) not in (None, "default"):
        raise OptionError("mode: expected none for the back end 'rammer', found one; give options")
    options.pop("dynamic", None)
    strict = options.pop("strict", False)
    if not isinstance(strict, bool):
        raise OptionError(f"strict: expected True or False, found {strict!r}")
    kept = options.pop("specializations", DEFAULT_SPECIALIZATIONS)
    _check(options, kept)
    return _CompiledGraph(graph, options, kept, strict=strict)


def _check(options: dict[str, Any], specializations: object) -> None:
    """Check ``options`` and the limit of specializations, as a user gave them to ``torch.compile``.

    Raises:
        OptionError: if an option is unknown or invalid.
    """
    from rammer_mlir.compiler.options import check_options, check_specializations

    check_specializations(specializations)
    outer = ("target", "executor", "emulate", "check", "device", "cache")
    inner = {name: value for name, value in options.items() if name not in outer}
    check_options(options.get("target", "cpu"), **cast("Any", inner))


class _CompiledGraph:
    """Runs a graph as compiled code, or by torch if the graph cannot be compiled."""

    def __init__(self, graph: Any, options: dict[str, Any], kept: int, *, strict: bool) -> None:
        self._graph, self._options, self._kept, self._strict = graph, options, kept, strict
        self._inputs: list[int] | None = None
        self._lock = Lock()
        self._models: OrderedDict[_Signature, _Specialization | None] = OrderedDict()
        self._told: set[str] = set()

    def __call__(self, *args: Any) -> Any:
        """Run the graph on ``args``, the graph's inputs; return the graph's results.

        torch runs the graph if it cannot be compiled, or if gradients are needed. With the option
        ``strict``, these cases raise a RammerError instead.
        """
        torch = pytorch()
        if torch.is_grad_enabled() and self._needs_gradients(args):
            return self._by_torch(
                args, "gradients are asked for; run it within torch.no_grad() or inference_mode()"
            )
        with self._lock:
            found = self._specialization(args)
        return self._graph(*args) if found is None else found(args)

    def _specialization(self, args: Sequence[Any]) -> _Specialization | None:
        """Return the specialization for inputs ``args``, compiled if necessary.

        If the graph cannot be compiled, return None, so that torch runs the graph. With the option
        ``strict``, raise the compiler's error instead.
        """
        if self._inputs is None:
            self._inputs = [at for at, value in enumerate(args) if not _is_weight(value)]
        key = tuple([_signature_of(args[at]) for at in self._inputs])
        found = self._models.get(key)
        if found is not None and not found.is_current(args):
            del self._models[key]
        if key not in self._models:
            try:
                self._models[key] = _specialized(self._graph, args, self._options)
            except RammerError as error:
                if self._strict:
                    raise
                self._models[key] = None
                self._tell(str(error))
            while len(self._models) > self._kept:
                self._models.popitem(last=False)  # do not close: a run may still use it
        self._models.move_to_end(key)
        return self._models[key]

    def _needs_gradients(self, args: Sequence[Any]) -> bool:
        tensors = [value for value in args if isinstance(value, pytorch().Tensor)]
        return any(t.requires_grad for t in (*tensors, *self._graph.parameters()))

    def _by_torch(self, args: Sequence[Any], reason: str) -> Any:
        if self._strict:
            raise UnsupportedError(f"the graph cannot be compiled: {reason}")
        self._tell(reason)
        return self._graph(*args)

    def _tell(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            LOGGER.warning("a graph of torch.compile is run by torch: %s", reason)


def _signature_of(value: Any) -> object:
    """Return the part of a specialization's key that describes one input of the graph.

    For a tensor, this is its shape, dtype and device type; for another value, its type and the
    value, a floating-point number by its bits.
    """
    if isinstance(value, pytorch().Tensor):
        return (tuple(value.shape), value.dtype, value.device.type)
    return exact_key(value)


def _is_weight(value: object) -> bool:
    """Whether a graph's input is a parameter or buffer of a module."""
    torch = pytorch()
    if not isinstance(value, torch.Tensor):
        return False
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


class _Specialization:
    """A graph compiled for a combination of input shapes, with the graph's weights as constants."""

    def __init__(self, model: TorchModel, weights: Sequence[tuple[int, Any]], tensors: list[int]):
        self._model, self._tensors = model, tensors
        # Keep the memory, so that its addresses are not reused, even if parameters get other data.
        self._weights = [value.detach() for _, value in weights]
        self._positions = [at for at, _ in weights]
        self._addresses = [value.data_ptr() for _, value in weights]
        # Inference tensors do not count writes.
        self._counting = [at for at, value in weights if not value.is_inference()]
        self._writes = [value._version for _, value in weights if not value.is_inference()]

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...]:
        # A graph takes tensors by position and returns a tuple: comparing structures would cost
        # a tenth of a millisecond in each call.
        return tuple(self._model.run_leaves([args[at] for at in self._tensors]))

    def is_current(self, args: Sequence[Any]) -> bool:
        """Whether the weights still have the values with which the graph was compiled.

        Each weight must be at the same memory address as at compilation, and must not have been
        written since. ``args`` are the graph's inputs in the current call, including the weights.
        """
        return self._addresses == [
            args[at].data_ptr() for at in self._positions
        ] and self._writes == [args[at]._version for at in self._counting]


def _specialized(graph: Any, args: Sequence[Any], options: dict[str, Any]) -> _Specialization:
    """Compile a graph for ``args``, the inputs of a call, and return the specialization.

    ``options`` are those of ``rammer_mlir.compile``.
    """
    torch = pytorch()
    _refuse_views(graph)
    is_tensor = [isinstance(value, torch.Tensor) for value in args]
    inputs = [at for at, value in enumerate(args) if is_tensor[at] and not _is_weight(value)]
    weights = [(at, value) for at, value in enumerate(args) if is_tensor[at] and at not in inputs]
    module = _Frozen(graph, args, inputs)
    with torch.no_grad():
        model = compile(module.module, tuple(args[at] for at in inputs), **options)
    return _Specialization(model, weights, inputs)


def _refuse_views(graph: Any) -> None:
    """Check that no result of a graph is a view of an input or parameter.

    Writes to a view change the input, but compiled code returns results in new memory.

    Raises:
        UnsupportedError: if a result is such a view.
    """
    owners = {
        _storage(node): node.target
        for node in graph.graph.nodes
        if node.op in ("placeholder", "get_attr")
    }
    for node in graph.graph.output_node().all_input_nodes:
        owner = owners.get(_storage(node))
        if owner is not None and _storage(node) is not None:
            raise UnsupportedError(
                f"the graph cannot be compiled: result '{node.name}' is a view of '{owner}'; "
                "return a copy of it"
            )


def _storage(node: Any) -> int | None:
    """Return torch's number of the memory of a graph node's dense tensor; None for others."""
    torch, value = pytorch(), node.meta.get("example_value")
    is_dense = isinstance(value, torch.Tensor) and value.layout == torch.strided
    return value.untyped_storage()._cdata if is_dense else None


class _Frozen:
    """Wraps a graph as a torch module, with some of the graph's arguments as constants.

    The attribute ``module`` is the torch module.

    Args:
        graph: the graph.
        args: the values of all arguments of the graph.
        inputs: indices of the arguments that remain inputs; the other arguments become constants.
    """

    def __init__(self, graph: Any, args: Sequence[Any], inputs: Sequence[int]) -> None:
        torch = pytorch()

        class Module(torch.nn.Module):
            """A torch module that runs the graph; it stores the constant arguments."""

            def __init__(self) -> None:
                super().__init__()
                self.graph_of_torch = graph
                self.numbers: dict[int, Any] = {}
                for at, value in enumerate(args):
                    if at in inputs:
                        continue
                    if isinstance(value, torch.Tensor):
                        self.register_buffer(f"weight_{at}", value.detach())
                    else:
                        self.numbers[at] = value

            def forward(self, *tensors: Any) -> Any:
                """Run the graph on ``tensors``, the arguments that are not constant."""
                given = dict(zip(inputs, tensors, strict=True))
                return self.graph_of_torch(
                    *[
                        given[at] if at in given
                        else self.numbers[at] if at in self.numbers
                        else getattr(self, f"weight_{at}")
                        for at in range(len(args))
                    ]
                )  # fmt: skip

        self.module = Module().eval()
