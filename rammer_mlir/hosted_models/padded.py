"""Runs parts with data-dependent sizes on inputs that are padded to compiled sizes.

A specialization of a padded size also serves all smaller sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.hosted_models.parts import Part, Value
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.pool import Key
from rammer_mlir.programs.padding import Padding


def run_padded(part: Part, padding: Padding, values: Sequence[Value]) -> list[Value]:
    """Run a part with padded inputs; return its outputs, sliced to the sizes without padding.

    The part runs unpadded if ``padding`` does not permit these inputs to be padded.

    Args:
        part: the part.
        padding: how to pad the part's inputs, and how to slice its outputs.
        values: the inputs, in the part's order.

    Raises:
        RammerError: if the part fails.
    """
    feeds = dict(zip(part.names, values, strict=True))
    sizes = padding.sizes(feeds)
    if sizes is None or not isinstance(part.model, OpenModel):
        return part.call(values)
    size = _size(part.model, padding, padding.needed(sizes))
    found = part.model.run(padding.pad(feeds, size))
    return padding.cut(list(found.values()), sizes)


def padded_keys(model: OpenModel, padding: Padding, most: int | None) -> list[Key]:
    """Return the keys of the padded specializations that serve all unpadded sizes up to ``most``.

    If ``padding`` has a smaller bound, or ``most`` is None, the bound in ``padding`` applies. The
    list is empty if neither has a bound. The list has at most ``model.limit`` keys, those of the
    greatest sizes, because more specializations are not kept in memory.
    """
    inputs = {tensor.name: tensor.shape or () for tensor in model.signature.inputs}
    found = [padding.shapes(inputs, size) for size in padding.steps(most)[-model.limit :]]
    return [tuple(shapes[name] for name in inputs) for shapes in found]


def _size(model: OpenModel, padding: Padding, needed: int) -> int:
    """Return the size, at least ``needed``, to which the open axes of a part's inputs are padded.

    The result is the smallest such size that ``padding`` allows (``Padding.step``). A model from an
    artifact cannot compile specializations, so the result is the smallest such size among its
    stored specializations. If no stored size is large enough, the result is ``Padding.step``, for
    which the run will fail.
    """
    if model.makes_new:
        return padding.step(needed)
    held = [padding.size_of(shapes) for shapes in model.shapes]
    fitting = [size for size in held if size is not None and size >= needed]
    return min(fitting, default=padding.step(needed))
