"""Serializes a region's values and primitives as 64-bit integers, with oneDNN 3.2's enum values."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from rammer_mlir.codegens.primitives.builder import MOST_DIMS, MOST_MAIN, MOST_POSTS
from rammer_mlir.codegens.primitives.node import Function, Kind, Node, Operand, Role, Table, Windows
from rammer_mlir.codegens.primitives.region_values import Value

_MOST_AXES = 3

_ALGORITHMS: Mapping[str, tuple[int, *tuple[float, ...]]] = {
    "": (0,),
    "relu": (32,), "leaky_relu": (32,), "tanh": (33,), "elu": (34,), "square": (35,),
    "abs": (36,), "sqrt": (37,), "linear": (38,), "neg": (38, -1.0), "softplus": (39, 1.0),
    "hard_sigmoid": (40,), "sigmoid": (41,), "exp": (42,), "swish": (44, 1.0), "log": (45,),
    "clip": (46,), "power": (48, 1.0), "reciprocal": (48, 1.0, -1.0), "rsqrt": (48, 1.0, -0.5),
    "gelu": (49,), "mish": (51,), "hard_swish": (52, 1 / 6, 0.5),
    "max_pool": (511,), "average_pool": (767,), "inner_average_pool": (1023,),
    "add": (131056,), "mul": (131057,), "maximum": (131058,), "minimum": (131059,),
    "div": (131060,), "sub": (131061,),
    "nearest": (196592,),
    "reduce_max": (196594,), "reduce_min": (196595,), "reduce_sum": (196596,),
    "reduce_prod": (196597,), "reduce_mean": (196598,), "reduce_l1": (196602, 1.0),
    "reduce_sum_square": (196602, 2.0),
    "softmax": (196608,),
}  # fmt: skip
"""Value of ``dnnl_alg_kind_t`` of each function, then constants that precede its parameters."""

_NAMES = {
    Role.RESULT: 17, Role.SOURCE: 1, Role.WEIGHTS: 33, Role.BIAS: 41, Role.PART: 1024,
    Role.POST: 32770,
}  # fmt: skip
"""The library's argument numbers (``DNNL_ARG_...``) of operands, by role.

Inputs of a concatenation (``PART``) and post operations count up from the number of their role.
"""

_BLOCKED_TAGS = {3: 56, 4: 78, 5: 121}
"""The library's tags of the layout with blocks of 16 channels (``aBc16b``), by rank."""

_SECOND, _NEXT_POST = 2, 32768
"""Argument number of a binary primitive's second operand, and the increment per post operation."""


def words_of(table: Table, scratch_bytes: int = 0) -> list[int]:
    """Return a region's values and primitives as 64-bit integers, in the C code's format.

    ``scratch_bytes`` is the number of bytes of scratch memory per rTask; 0 while it is unknown.
    """
    rows = [word for n in range(len(table.values)) for word in _value_words(table, n)]
    rows += [word for node in table.nodes for word in _node_words(node)]
    header = [len(table.values), len(table.nodes), table.num_inputs, table.num_buffers]
    return [2 + len(header) + len(rows), *header, scratch_bytes, *rows]


def _value_words(table: Table, number: int) -> list[int]:
    """Return the value with index ``number`` as the integers of the C code's ``struct value``."""
    value = table.values[number]
    dims, strides = value.view.dims, value.view.strides
    parts = 1 if number in table.whole else table.parts
    dims = (dims[0] // parts, *dims[1:])
    step = 4 * strides[0] * dims[0] if parts > 1 else 0
    sizes = (*_padded(dims, MOST_DIMS), *_padded(strides, MOST_DIMS))
    return [len(dims), *sizes, value.buffer, value.source, step, _blocked_tag(value)]


def _blocked_tag(value: Value) -> int:
    """Return the library's tag of a value's blocked layout; 0 if the value has strides instead."""
    return _BLOCKED_TAGS[len(value.view.dims)] if value.in_blocks else 0


def _node_words(node: Node) -> list[int]:
    """Return a primitive as the integers of the C code's ``struct node``."""
    operands = [word for n, each in enumerate(node.operands) for word in _operand(node, n, each)]
    places = [n for n, post in enumerate(node.posts) if _ALGORITHMS[post.name][0] >= 131056]
    for place, each in zip(places, node.read, strict=True):
        operands += [_NAMES[Role.POST] + _NEXT_POST * place, each.value, each.layout]
    algorithm, *numbers = _function(node.function)
    found = [node.kind, algorithm, node.axis, *numbers, *_window_words(node.windows)]
    found += [len(node.posts), len(node.operands), len(operands) // 3]
    posts = [word for post in node.posts for word in _function(post)]
    most = 3 * (MOST_POSTS + MOST_MAIN)
    return [*found, *_padded(posts, 3 * MOST_POSTS), *_padded(operands, most)]


def _operand(node: Node, place: int, operand: Operand) -> list[int]:
    """Return an operand of a primitive as integers of the C code's ``struct operand``.

    ``place`` is the index of ``operand`` among the operands of the primitive ``node``.
    """
    name = _NAMES[operand.role] + (place - 1 if operand.role == Role.PART else 0)
    is_second = operand.role == Role.WEIGHTS and node.kind > Kind.MATMUL
    return [_SECOND if is_second else name, operand.value, operand.layout]


def _function(function: Function) -> list[int]:
    """Return a function's ``dnnl_alg_kind_t`` and the bit patterns of its two f64 parameters."""
    algorithm, *first = _ALGORITHMS[function.name]
    numbers = (*first, function.alpha, function.beta)[:2]
    return [algorithm, *struct.unpack("<2q", struct.pack("<2d", *numbers))]


def _window_words(windows: Windows) -> list[int]:
    fields = (windows.strides, windows.dilations, windows.low, windows.high, windows.kernel)
    return [word for given in fields for word in _padded(given, _MOST_AXES)]


def _padded(given: Sequence[int], size: int) -> Sequence[int]:
    assert len(given) <= size
    return (*given, *(0,) * (size - len(given)))
