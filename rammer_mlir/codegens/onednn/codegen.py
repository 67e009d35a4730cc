"""Defines the code generator for oneDNN: its supported operations, and the code of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.codegens import (
    Box,
    CompositePattern,
    Device,
    Layouts,
    Limits,
    Match,
    ModuleOption,
    Reading,
    Region,
    RegionCode,
    RegionFacts,
    Requirement,
    alternatives,
    constant,
    op,
    wildcard,
)
from rammer_mlir.codegens.inexpressible import NotExpressibleError
from rammer_mlir.codegens.onednn.table import words_of
from rammer_mlir.codegens.primitives.builder import PRODUCTS, is_expressible, table_of
from rammer_mlir.codegens.primitives.chains import with_steps
from rammer_mlir.codegens.primitives.convolutions import CONVOLUTIONS
from rammer_mlir.codegens.primitives.functions import BINARY_KINDS, UNARY_KINDS
from rammer_mlir.codegens.primitives.node import Table
from rammer_mlir.codegens.primitives.region_values import blockable
from rammer_mlir.codegens.primitives.views import Dims
from rammer_mlir.codegens.table_code import Needs, TableCode
from rammer_mlir.engines import requirements
from rammer_mlir.engines.graphs.thread_option import MOST_THREADS
from rammer_mlir.errors import TargetError
from rammer_mlir.passes.regions.patterns import Pattern
from rammer_mlir.programs.module_options import Value
from rammer_mlir.programs.modules import CodeModule

NEED = Requirement("onednn-cpu-gomp", "2023.2.0", "/libdnnl.so.3", "offload-onednn")
"""The required version of oneDNN; the C code contains its enumeration values."""

_FILES = tuple(Path(__file__).with_name(name) for name in ("build.c", "run.c"))

CODE = TableCode(CodeModule("onednn", "c", needs=(NEED,)), _FILES)

_NO_FUNCTION = 100

MATH = {"strict": 0, "bf16": 1, "f16": 2, "any": 3, "tf32": 4}
"""The library's ``dnnl_fpmath_mode_t``, by value of the option ``math``."""

_MOST_JOINED = 2
"""Largest number of inputs of a concatenation that a region may contain.

More inputs come from parallel branches, which several vEUs compute better than one region.
"""

_MOST_PARTS, _LEAST_MACS = 8, 1 << 20
"""Largest number of rTasks of a region; fewest multiply-accumulates per rTask if it has several."""


class OneDnn:
    """Compiles f32 convolutions, products, poolings and element-wise functions to oneDNN 3.2 calls.

    The batch of a region is divided into equal parts, each computed by an rTask. An rTask runs only
    on the thread of its vEU, unless the option ``threads`` is above 1. Intermediate results have
    the layouts that the library prefers. Weights are packed when the region's state is opened.
    """

    name: ClassVar[str] = "onednn"
    options: ClassVar[tuple[ModuleOption, ...]] = (
        ModuleOption(
            "threads", 1, "threads that compute a region, by OpenMP", least=1, most=MOST_THREADS
        ),
        ModuleOption(
            "math",
            "strict",
            "rounding of products of f32, if the processor is faster with it",
            choices=tuple(MATH),
        ),
    )

    def patterns(self) -> Sequence[CompositePattern]:
        """Return patterns of operations with element-wise functions after them, and of upsampling.

        Each match becomes one primitive of the library, with the functions as its post operations.
        """
        main = {
            "onednn.convolution": op(CONVOLUTIONS, wildcard("x"), constant("w")),
            "onednn.layer": op(PRODUCTS, wildcard("x"), constant("w")),
            "onednn.product": op(PRODUCTS, wildcard("x"), wildcard("w")),
            # The library has no fast code for functions after a unary one.
            "onednn.elements": op(BINARY_KINDS, wildcard("x"), wildcard("y")),
        }
        priorities = dict(zip(main, (3, 3, 2, 0), strict=True))
        chains = [
            CompositePattern(
                name, with_steps(each, UNARY_KINDS, BINARY_KINDS), _is_one, priorities[name]
            )
            for name, each in main.items()
        ]
        repeated = _repetition(alternatives(_repetition(wildcard("x")), wildcard("x")))
        return [*chains, CompositePattern("onednn.resize", repeated, _is_one, 1)]

    def supports(self, reading: Reading) -> bool:
        """Whether the library has a primitive for an operation outside of all pattern matches.

        False for convolutions and products, which the library computes only in pattern matches, for
        concatenations of more than ``_MOST_JOINED`` tensors, and for a constant first input.
        """
        if reading.kind in (*CONVOLUTIONS, *PRODUCTS) or reading.inputs[0].is_constant:
            return False
        is_join = reading.kind == "concat" and len(reading.inputs) > _MOST_JOINED
        return not is_join and is_expressible([reading])

    def limits(self) -> Limits:
        """Return the limit of 64 operations; a larger region would leave other vEUs idle."""
        return Limits(operations=64)

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        """Return True for every region; a later search by predicted time drops slow regions."""
        return True

    def missing(self) -> str | None:
        """Return a message about missing packages; None if all are installed."""
        return requirements.missing(CODE.module.needs)

    def version(self) -> str:
        """Return the version of oneDNN's package that the code requires."""
        return NEED.version

    def generate(self, region: Region) -> RegionCode | None:
        """Return C that calls the installed library; None if the library lacks an operation."""
        asked = _table_and_needs(region)
        if asked is None:
            return None
        table, found = asked
        boxes = _boxes(region, table)
        assert boxes is not None, "expected parts that are boxes"
        return RegionCode(
            code_for(region.options).source_of(region.name, words_of(table, found.scratch_bytes)),
            region.name,
            num_rtasks=table.parts,
            reads={n: box for n, box in boxes.items() if n < table.num_inputs},
            writes={n - table.num_inputs: b for n, b in boxes.items() if n >= table.num_inputs},
            has_state=True,
            holds_weights=table.is_packed,
            scratch_bytes=found.scratch_bytes,
            needs=CODE.module.needs,
        )

    def layouts(self, region: Region) -> Layouts:
        """Choose the inputs and outputs (f32 images) to store in blocks of 16 channels.

        An image is chosen if blocks reduce the bytes that rTasks copy between layouts.

        Raises:
            RammerError: if the library is missing, or has another version.
        """
        least = self.converted_bytes(region)
        number = len(region.inputs)
        chosen: dict[int, Dims] = {}
        for buffer, dims in blockable(region).items():
            if not least:
                break
            asked = _table_and_needs(region, {**chosen, buffer: dims})
            bytes_now = least if asked is None else asked[0].parts * asked[1].converted_bytes
            if bytes_now < least:
                chosen[buffer], least = dims, bytes_now
        return Layouts(
            {buffer: 1 for buffer in chosen if buffer < number},
            {buffer - number: 1 for buffer in chosen if buffer >= number},
        )

    def converted_bytes(self, region: Region) -> int:
        """Return how many bytes of inputs and outputs a run of the region copies between layouts.

        Return 0 if the library cannot compute the region.
        """
        asked = _table_and_needs(region)
        return 0 if asked is None else asked[0].parts * asked[1].converted_bytes


def code_for(options: Mapping[str, Value]) -> TableCode:
    """Return the C files with a macro for each of ``options`` whose value is not the default."""
    threads, math = options.get("threads", 1), MATH[str(options.get("math", "strict"))]
    lines = f"#define THREADS {threads}\n" if threads != 1 else ""
    return replace(CODE, settings=lines + (f"#define MATH {math}\n" if math else ""))


def _table_and_needs(
    region: Region, in_blocks: Mapping[int, Dims] = MappingProxyType({})
) -> tuple[Table, Needs] | None:
    """Return a region's table of primitives, and the bytes of memory that an rTask needs.

    The function chooses the number of rTasks in the table; the C code reports the needed memory.
    Return None if the library cannot compute the region.

    Args:
        region: the region, whose inputs and outputs may have blocked layouts.
        in_blocks: inputs and outputs that are treated as blocked although ``region`` stores them
            row-major: row-major shapes by buffer index, as in ``table_of``.

    Raises:
        RammerError: if the library is missing, or has another version.
    """
    try:
        table = table_of(region, in_blocks)
    except NotExpressibleError:
        return None
    sizes = (n for n in range(_MOST_PARTS, 0, -1) if table.batch % n == 0)
    enough = (replace(table, parts=n) for n in sizes if n == 1 or region.macs >= n * _LEAST_MACS)
    divided = next(each for each in enough if _boxes(region, each) is not None)
    found = code_for(region.options).ask(words_of(divided))
    if found.status == _NO_FUNCTION:
        raise TargetError(
            f"code generator 'onednn': expected all functions of {NEED.library} {NEED.version}, "
            f"found fewer; install it again with 'pip install rammer-mlir[{NEED.extra}]'"
        )
    return None if found.status else (divided, found)


def _boxes(region: Region, table: Table) -> dict[int, Box] | None:
    """Return, by buffer index, the box of an rTask in each buffer that is split over rTasks.

    The offsets of a box are affine expressions of the rTask's index ``d0``. Buffers are the inputs,
    then the outputs. Return None if an rTask's part of a buffer is not a box.
    """
    kinds = [ir.ShapedType(kind) for kind in (*region.inputs, *region.outputs)]
    found = {number: _piece(kinds[number].shape, table.parts) for number in table.split_buffers()}
    boxes = {number: box for number, box in found.items() if box is not None}
    return boxes if len(boxes) == len(found) else None


def _piece(shape: Sequence[int], parts: int) -> Box | None:
    """Return the box of an rTask in a row-major buffer of the given shape.

    The buffer is split into ``parts`` equal, contiguous parts, one for each rTask. The offsets of
    the box are affine expressions of the rTask's index ``d0``. Return None if a part is not a box.
    """
    box: list[tuple[int | str, int]] = []
    index, left = "d0", parts
    for size in shape:
        if left == 1 or size == 1:
            box.append((0, size))
        elif size % left == 0:
            box.append((f"({index}) * {size // left}", size // left))
            left = 1
        elif left % size == 0:
            left //= size
            box.append((f"({index}) floordiv {left}", 1))
            index = f"({index}) mod {left}"
        else:
            return None
    return box


def _repetition(value: Pattern) -> Pattern:
    return op("reshape", op("broadcast", value))


def _is_one(match: Match) -> bool:
    return is_expressible(match.readings)
