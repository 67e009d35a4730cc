"""Running parts whose sizes data decides in programs of a few sizes."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.hosted_models.parts import Part, Value
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.pool import Key
from rammer_mlir.programs.padding import Padding


def run_padded(part: Part, padding: Padding, values: Sequence[Value]) -> list[Value]:
    """Return the outputs of a part for values in the order of its inputs.

    Raises:
        RammerError: as running the part does.
    """
    feeds = dict(zip(part.names, values, strict=True))
    sizes = padding.sizes(feeds)
    if sizes is None or not isinstance(part.model, OpenModel):
        return part.call(values)
    size = _size(part.model, padding, padding.needed(sizes))
    found = part.model.run(padding.pad(feeds, size))
    return padding.cut(list(found.values()), sizes)


def padded_keys(model: OpenModel, padding: Padding, most: int | None) -> list[Key]:
    """Return the specialisations that serve all sizes up to the greatest, as many as are kept."""
    inputs = {tensor.name: tensor.shape or () for tensor in model.signature.inputs}
    found = [padding.shapes(inputs, size) for size in padding.steps(most)[-model.limit :]]
    return [tuple(shapes[name] for name in inputs) for shapes in found]


def _size(model: OpenModel, padding: Padding, needed: int) -> int:
    """Return the size to pad to: the least one in memory where none can be compiled."""
    if model.makes_new:
        return padding.step(needed)
    held = [padding.size_of(shapes) for shapes in model.shapes]
    fitting = [size for size in held if size is not None and size >= needed]
    return min(fitting, default=padding.step(needed))
