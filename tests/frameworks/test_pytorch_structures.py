"""Nested results are rebuilt as torch does; tensors of all types and layouts become arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import rammer_mlir.pytorch
from rammer_mlir.errors import InputError
from rammer_mlir.pytorch.structures import restorer
from rammer_mlir.pytorch.tensors import array_of, tensor_of

pytree: Any = torch.utils._pytree


class Pair(NamedTuple):
    """A named tuple, which torch flattens like other structures."""

    first: object
    second: object


@pytest.mark.parametrize(
    "structure",
    [
        1,
        (1, 2),
        [1, (2,), []],
        ((), (1, [2, (3, 4)])),
        {"b": 1, "a": (2, [3])},
        [Pair(1, (2, 3)), {"x": []}, 4],
        (Pair([1], {"y": 2}), (3,), None),
    ],
)
def test_structures_are_those_of_torch(structure: object) -> None:
    leaves, spec = pytree.tree_flatten(structure)
    assert restorer(spec)(iter(leaves)) == structure


def test_arrays_share_memory_where_they_can() -> None:
    dense = torch.arange(12.0).reshape(3, 4)
    assert array_of("x", dense).ctypes.data == dense.data_ptr()
    for tensor in (dense.T, dense[:, 1:3], dense.clone().requires_grad_(), dense.bfloat16()):
        found = array_of("x", tensor)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found.astype(np.float32), tensor.detach().float().numpy())
    for kind in (torch.bfloat16, torch.float8_e5m2, torch.int8, torch.bool, torch.complex64):
        tensor = dense.to(kind)
        assert torch.equal(tensor_of(array_of("x", tensor)).float(), tensor.float())
    with pytest.raises(InputError, match="expected a dense tensor on the CPU, found device 'meta'"):
        array_of("x", dense.to("meta"))
    with pytest.raises(InputError, match=r"found torch\.sparse_coo"):
        array_of("x", dense.to_sparse())


def test_positional_tensors_are_checked() -> None:
    module = torch.nn.Bilinear(4, 3, 2).eval()
    with torch.no_grad():
        x, y = torch.ones(5, 4), torch.ones(5, 3)
        with rammer_mlir.pytorch.compile(module, (x, y)) as model:
            torch.testing.assert_close(model(x, y), module(x, y))
            for wrong in ((x,), (x, y, y), ((x, y),), (x, [y])):
                with pytest.raises(InputError, match="expected arguments in the structure"):
                    model(*wrong)
