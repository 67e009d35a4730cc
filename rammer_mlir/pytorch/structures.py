"""Flattens and rebuilds nested arguments and results faster than torch's general functions.

torch's functions handle any registered type. Even for positional tensors, tuples and lists, a call
of these functions takes longer than a run of a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from rammer_mlir.frontends.pytorch.interface import Constant, Interface
from rammer_mlir.frontends.pytorch.package import pytorch


def takes_only_tensors(interface: Interface) -> bool:
    """Whether all arguments of a program are positional tensors, without nested structures."""
    if any(isinstance(leaf, Constant) for leaf in interface.inputs):
        return False
    pytree = pytorch().utils._pytree
    _, flat = pytree.tree_flatten((tuple(interface.inputs), {}))
    return bool(interface.in_spec == flat)


def restorer(spec: Any) -> Callable[[Iterator[Any]], Any]:
    """Return a function that builds the structure ``spec``, a TreeSpec of torch, from its leaves.

    The returned function takes an iterator over the leaves, in order. The iterator may have more
    leaves than the structure.
    """
    if spec.is_leaf():
        return next
    kind: Any = spec.type
    if kind in (tuple, list):
        parts = [restorer(child) for child in spec.children()]

        def build(leaves: Iterator[Any]) -> Any:
            return kind([part(leaves) for part in parts])

        return build
    unflatten = pytorch().utils._pytree.tree_unflatten
    return lambda leaves: unflatten(list(islice(leaves, spec.num_leaves)), spec)
