"""Wraps compiled JAX functions as callables that take and return JAX arrays."""

from __future__ import annotations

import functools
import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, cast

import numpy as np

import rammer_mlir
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.jax.package import jax_package
from rammer_mlir.options import DEFAULT_SPECIALIZATIONS
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.support.aligned import LARGE
from rammer_mlir.support.exact_key import exact_key

_SETTINGS = (
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_random_seed_offset",
    "jax_softmax_custom_jvp",
    "jax_threefry_partitionable",
)
"""The settings of JAX on which the trace of a function depends."""


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    specializations: int = DEFAULT_SPECIALIZATIONS,
    **options: Any,
) -> Any:
    """Return a callable that runs ``function`` as compiled code; also usable as a decorator.

    The function is traced and compiled at the first call with each combination of argument
    structure, shapes and dtypes. ``jit(jax.grad(f))`` computes a gradient.

    Args:
        function: a function on arrays in nested structures, without side effects. None to return a
            decorator, which has the remaining arguments.
        static_argnums: indices of the positional arguments that are compile-time constants, as in
            ``jax.jit``.
        specializations: greatest number of specializations in memory.
        options: options of ``rammer_mlir.compile``.

    Raises:
        MissingPackageError: if jax is not installed, or too old.
        OptionError: if ``specializations`` is less than 1.
    """
    if function is None:
        return functools.partial(
            jit, static_argnums=static_argnums, specializations=specializations, **options
        )
    return CompiledFunction(function, static_argnums, specializations, options)


class CompiledFunction:
    """A JAX function that is compiled at its first call with each kind of arguments.

    Two calls have the same kind of arguments if the structures, shapes and dtypes of their arrays
    and the types and values of their static arguments are equal (``exact_key``).
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: int | Sequence[int],
        specializations: int,
        options: dict[str, Any],
    ) -> None:
        """Store the function and options, which are the arguments of ``jit``.

        The function is traced at the first call, not here.
        """
        from rammer_mlir.compiler.options import check_specializations

        check_specializations(specializations)
        self._numbers = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
        self._names = _parameters(function, self._numbers)
        self._function = function
        _jitted(function, self._numbers)  # for its checks of the numbers
        self._limit, self._options = specializations, options
        self._compiled: OrderedDict[object, tuple[RunnableModel, Any, list[Any]]] = OrderedDict()
        self._lock = RLock()  # a function may call itself while it is traced
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function on JAX arrays, NumPy arrays and numbers.

        The function is compiled first if necessary.

        Returns:
            JAX arrays, in the structure of the function's result.

        Raises:
            RammerError: if the function cannot be compiled.
        """
        jax = jax_package()
        static = {at + len(args) if at < 0 else at for at in self._numbers}
        dynamic = [value for at, value in enumerate(args) if at not in static]
        named = {name: value for name, value in kwargs.items() if name not in self._names}
        leaves, structure = jax.tree.flatten((dynamic, named))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise UnsupportedError(
                "a compiled function is called within another transformation of JAX: expected "
                "arrays; compile the transformed function, as in jit(jax.grad(f))"
            )
        arrays = [_array_of(leaf) for leaf in leaves]
        key = (
            structure,
            tuple(_kind(array, leaf) for array, leaf in zip(arrays, leaves, strict=True)),
            tuple(exact_key(args[at]) for at in range(len(args)) if at in static),
            tuple((k, exact_key(v)) for k, v in sorted(kwargs.items()) if k in self._names),
            tuple(getattr(jax.config, name, None) for name in _SETTINGS),
        )
        with self._lock:
            model, out_tree, kinds = self._specialization(key, args, kwargs)
        outputs = model.run(dict(zip(model.input_names, arrays, strict=True)))
        return jax.tree.unflatten(out_tree, [*map(_jax_array, outputs.values(), kinds)])

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the function bound to ``instance``, so that it can be a method of a class."""
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Return the ``jax.stages.Lowered`` of the function, traced for these arguments."""
        return _jitted(self._function, self._numbers).lower(*args, **kwargs)

    def _specialization(
        self, key: object, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[RunnableModel, Any, list[Any]]:
        if key not in self._compiled:
            lowered = self.lower(*args, **kwargs)
            model = rammer_mlir.compile(lowered, **self._options)
            kinds = [leaf.dtype for leaf in jax_package().tree.leaves(lowered.out_info)]
            self._compiled[key] = cast("RunnableModel", model), lowered.out_tree, kinds
            while len(self._compiled) > self._limit:
                self._compiled.popitem(last=False)  # do not close: a run may still use it
        self._compiled.move_to_end(key)
        return self._compiled[key]


def _jitted(function: Callable[..., Any], numbers: Sequence[int]) -> Any:
    """Return ``jax.jit`` of a function whose arguments at the positions ``numbers`` are static.

    JAX shares no trace between the results of two calls.
    """

    # Of one function, JAX reuses the trace for an equal static argument, such as (1,) for (1.0,).
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    # Without ``keep_unused``, the module would lack the unused arguments.
    return jax_package().jit(traced, static_argnums=numbers, keep_unused=True)


def _parameters(function: Callable[..., Any], numbers: Sequence[int]) -> frozenset[str]:
    """Return the names of a function's parameters at the positions ``numbers``.

    As in ``jax.jit``, these arguments may also be given by name. The result is empty if Python
    does not know the function's parameters.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return frozenset()
    found = (parameters[at] for at in numbers if -len(parameters) <= at < len(parameters))
    return frozenset(one.name for one in found if one.kind == one.POSITIONAL_OR_KEYWORD)


def _kind(array: Any, leaf: Any) -> tuple[object, ...]:
    """Return an argument's shape, dtype and weak typing: its part of a compiled function's key.

    ``array`` is the argument ``leaf`` as a NumPy array. The returned dtype is that of ``array``,
    except for random number keys, whose dtype only ``leaf`` has.
    """
    jax = jax_package()
    dtype = getattr(leaf, "dtype", None)
    is_key = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    return array.shape, dtype if is_key else array.dtype, _is_weak(leaf)


def _array_of(leaf: Any) -> Any:
    """Convert a JAX value, NumPy array or number to a NumPy array, with the dtype that JAX uses."""
    jax = jax_package()
    if type(leaf) is np.ndarray and leaf.dtype.kind in "biufc":  # without a copy to a JAX array
        return np.asarray(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))
    if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(jax.numpy.asarray(leaf))


def _jax_array(array: Any, kind: Any) -> Any:
    """Return a JAX array of a model's output, with the dtype ``kind`` in JAX.

    A large output is usually not copied: the JAX array takes over the output's memory, which
    nothing else uses.
    """
    jax = jax_package()
    if jax.dtypes.issubdtype(kind, jax.dtypes.prng_key):
        # Only arrays tell which random number generator their keys are for.
        return jax.random.wrap_key_data(array, impl=jax.random.key_impl(jax.numpy.empty((), kind)))
    if array.nbytes < LARGE or not _is_plain(jax):  # copying a smaller array is faster
        return jax.numpy.asarray(array)
    return jax.device_put(array, may_alias=True)


def _is_plain(jax: Any) -> bool:
    """Whether JAX neither checks the numbers of new arrays nor distributes them over a mesh.

    ``jax.device_put`` does neither.
    """
    is_checked = jax.config.jax_debug_nans or jax.config.jax_debug_infs
    return jax.sharding.get_abstract_mesh().empty and not is_checked


def _is_weak(leaf: object) -> bool:
    """Return whether a value is weakly typed, as Python's numbers are.

    In an operation, a weakly typed operand is converted to the dtype of the other operand.
    """
    # A scalar of NumPy may be an instance of ``float``, but is not weakly typed.
    return bool(getattr(leaf, "weak_type", type(leaf) in (bool, int, float, complex)))
