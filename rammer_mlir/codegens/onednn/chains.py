"""Convolutions and products with what follows on them, as one primitive with post operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.codegens.onednn.table import MOST_POSTS, SUM, Dims, Post
from rammer_mlir.passes.regions.reading import Operand, Reading

PRODUCTS = ("matmul", "batch_matmul")

CONVOLUTIONS = tuple(f"{prefix}conv{n}d" for prefix in ("", "depthwise_") for n in (1, 2, 3))

_IMAGES = ("NCW", "NCHW", "NCDHW")
"""Layouts of images: dense in row-major order, as the model has them."""


def _number(reading: Reading, name: str, default: float = 1.0) -> float:
    value = reading.attributes.get(name, default)
    assert isinstance(value, int | float)
    return float(value)


ACTIVATIONS: Mapping[str, Callable[[Reading], Post]] = {
    "relu": lambda _: Post(32),
    "leaky_relu": lambda r: Post(32, _number(r, "alpha")),
    "tanh": lambda _: Post(33),
    "elu": lambda r: Post(34, _number(r, "alpha")),
    "square": lambda _: Post(35),
    "abs": lambda _: Post(36),
    "sqrt": lambda _: Post(37),
    "softplus": lambda _: Post(39, 1.0),
    "hard_sigmoid": lambda r: Post(40, _number(r, "alpha"), _number(r, "beta")),
    "sigmoid": lambda _: Post(41),
    "exp": lambda _: Post(42),
    "swish": lambda _: Post(44, 1.0),
    "log": lambda _: Post(45),
    "clip": lambda r: Post(46, _number(r, "minimum"), _number(r, "maximum")),
    "gelu": lambda _: Post(49),
    "mish": lambda _: Post(51),
    "hard_swish": lambda _: Post(52, 1 / 6, 0.5),
}
"""Functions of elements, with the numbers of ``dnnl_alg_kind_t``."""


@dataclass(frozen=True)
class Chain:
    """A convolution or a product, its bias, what is added to its result, and all steps behind."""

    main: Reading
    bias: Operand | None
    sum: Operand | None
    posts: tuple[Post, ...]


def chain_of(readings: Sequence[Reading]) -> Chain | None:
    """Return readings, each of which computes on the one before, as a chain; None for others."""
    main, *rest = readings
    if main.kind not in (*CONVOLUTIONS, *PRODUCTS) or not _is_known(main):
        return None
    chain: Chain | None = Chain(main, None, None, ())
    previous = main
    for reading in rest:
        chain = chain and _extended(chain, previous, reading)
        previous = reading
    return chain if chain and len(chain.posts) <= MOST_POSTS else None


def _is_known(main: Reading) -> bool:
    is_float = all(each.element_type == "f32" for each in (*main.inputs, main.output))
    return is_float and (main.kind in PRODUCTS or weight_view(main) is not None)


def _extended(chain: Chain, previous: Reading, reading: Reading) -> Chain | None:
    """Append one more step."""
    if reading.kind in ACTIVATIONS:
        post = ACTIVATIONS[reading.kind](reading)
        return Chain(chain.main, chain.bias, chain.sum, (*chain.posts, post))
    values = [operand.value for operand in reading.inputs]
    if reading.kind != "add" or values.count(previous.output.value) != 1:
        return None
    place = 1 - values.index(previous.output.value)
    other = reading.inputs[place]
    dims = _indexing(reading)[place]
    rank = reading.output.rank
    channels = rank - 1 if chain.main.kind in PRODUCTS else 1
    is_first = not chain.posts and chain.bias is None
    if is_first and other.shape and tuple(d for d in dims if d >= 0) == (channels,):
        return Chain(chain.main, other, chain.sum, ())
    if chain.sum or other.shape != reading.output.shape or dims != tuple(range(rank)):
        return None
    return Chain(chain.main, chain.bias, other, (*chain.posts, SUM))


def _indexing(reading: Reading) -> tuple[Dims, ...]:
    found = reading.attributes["indexing"]
    assert isinstance(found, tuple)
    return tuple(each for each in found if isinstance(each, tuple))


def is_plain(reading: Reading) -> bool:
    """Whether all inputs have the result's shape, and are read element by element."""
    identity = tuple(range(reading.output.rank))
    shapes = {operand.shape for operand in reading.inputs}
    return shapes == {reading.output.shape} and set(_indexing(reading)) == {identity}


def weight_view(conv: Reading) -> tuple[Dims, Dims] | None:
    """Return sizes and strides of weights as (groups,) filters, channels, and the spatial axes."""
    layout, letters = str(conv.attributes["layout"]), str(conv.attributes["weight_layout"])
    if layout not in _IMAGES or conv.attributes["output_layout"] != layout.replace("C", "F"):
        return None
    is_grouped = conv.attributes["groups"] != 1
    wanted = f"{'G' * is_grouped}FC{layout[2:]}"
    if not set(letters) <= set(wanted) or is_grouped != ("G" in letters):
        return None
    shape = conv.inputs[1].shape
    sizes = dict(zip(letters, shape, strict=True))
    steps, step = dict[str, int](), 1
    for letter in reversed(letters):
        steps[letter], step = step, step * sizes[letter]
    dims = tuple(sizes.get(letter, 1) for letter in wanted)
    # An axis of one element may have any step that is not inside of another axis.
    return dims, tuple(steps.get(letter, step) for letter in wanted)
