"""`rtask-tile`: every rOperator gets candidate rKernels, which compute one rTask per call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, OperationError, Pass, check_least
from rammer_mlir.passes.ir.entry import functions, is_private, symbol_name
from rammer_mlir.passes.ir.kernels import MATRIX_ELEMENT, describe_kernel
from rammer_mlir.passes.tiling.builder import build_tiled
from rammer_mlir.passes.tiling.choice import Aim, LoopLimit, TileCost, Tiling, aims, choose
from rammer_mlir.passes.tiling.device_tiles import tiles_for
from rammer_mlir.passes.tiling.generated import generated_kernel, scratch_of
from rammer_mlir.passes.tiling.kernel import (
    Computation,
    TiledDomain,
    Touch,
    loop_limits,
    tile_cost,
    touches,
    whole,
    whole_cost,
)
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS, KernelProvider, offered_kernels
from rammer_mlir.passes.tiling.scratch import Scratch, add_scratch
from rammer_mlir.passes.tiling.sizes import (
    MOST_RTASKS,
    check_number_of_rtasks,
    check_tensor_sizes,
)
from rammer_mlir.passes.tiling.tile_search import search_tiling
from rammer_mlir.passes.tiling.whole import build_whole
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device


@dataclass(frozen=True)
class Limit:
    """A limit on the bytes that an rTask may access.

    ``memory`` is the limit in bytes, 0 for no limit. An error is reported at the operation ``op``.
    """

    memory: int
    op: ir.OpView

    def check(self, cost: TileCost) -> None:
        """Raise an OperationError if an rTask of the given cost accesses more than the limit."""
        if self.memory and cost.num_bytes > self.memory:
            raise OperationError(
                self.op,
                f"expected rTasks that touch at most {self.memory} bytes, which is what a vEU of "
                f"the device holds, found {cost.num_bytes} in the smallest one; choose another "
                "device",
            )


GREEDY = "greedy"
"""Value of the option ``design``: halve tiles greedily, each time with the fewest bytes moved."""

_DESIGNS = (GREEDY, "search")

_FIRST_LEVEL_BYTES = 8 * 1024
"""Maximum bytes of an rTask that reads a value twice; the second read then hits a core's L1.

The limit is a part of an L1 of 32 or 48 KiB, so that a core can load the next rTask's rows while it
computes: a softmax of 512x768 f32 takes 9.9 ns for 16 elements with 40 KiB and 7.9 ns with 6.5 KiB.
"""

_MOST_SMALL_TILES = 1024
"""Maximum number of rTasks into which the cache limit cuts; more take long to schedule."""

_MATRIX_SIDE = 8
"""Least number of rows, and of columns, with which a product is computed by matrix instructions."""

_MANY_CALLS = 32
"""Minimum number of calling rOperators for which a function gets an additional candidate."""


@dataclass(frozen=True)
class Tile(Pass):
    """Cut every rOperator into rTasks: up to ``candidates`` alternative rKernels, coarse to fine.

    No rTask accesses more than ``memory`` bytes; 0 is no limit.

    With ``device``, a name or a file, tiles are chosen by the times that the device description
    predicts for ``num-veus`` vEUs. Sums of products of the types ``matrix-elements`` are assumed to
    use matrix instructions.

    Without a device, tiles are chosen for cores of a CPU: an rTask of the coarsest rKernel executes
    at most ``work`` scalar operations where that is possible. More are allowed if there are at
    least ``enough`` rTasks and smaller rTasks would read many more bytes in total. A function that
    many rOperators call gets an additional candidate with small rTasks, which fill gaps in
    schedules. The ``design`` ``greedy`` refines tiles step by step; ``search`` finds the tiling
    that moves the fewest bytes with rTasks of the size that ``greedy`` finds.

    Registered ``providers`` may offer more rKernels for the ``target``.
    """

    name: ClassVar[str] = "rtask-tile"
    takes: ClassVar[Form | None] = Form.OPERATORS

    candidates: int = 2
    memory: int = 0
    device: str = ""
    num_veus: int = 1
    work: int = 8_000_000
    enough: int = 0
    providers: tuple[str, ...] = ()
    target: str = "cpu"
    design: str = GREEDY
    matrix_elements: tuple[str, ...] = ()

    def check_options(self) -> None:
        """Raise an OptionError if a numeric option is too small or ``design`` is not valid.

        If ``device`` is given, only the design ``greedy`` is valid.
        """
        check_least(self, 1, "candidates", "num_veus", "work")
        check_least(self, 0, "memory", "enough")
        if self.design not in _DESIGNS:
            raise OptionError(
                f"{self.name}: design: expected one of {', '.join(_DESIGNS)}, found '{self.design}'"
            )
        if self.design != GREEDY and self.device:
            raise OptionError(
                f"{self.name}: design: expected '{GREEDY}' with a device, for which tiles follow "
                f"from its times, found '{self.design}'; leave out one of the two"
            )

    def run(self, module: ir.Module) -> None:
        """Replace each function of an rOperator by candidate rKernels and their descriptions."""
        kernels: dict[str, list[str]] = {}
        device = find_device(self.device).device(self.num_veus) if self.device else None
        goals = aims(self.work, self.enough)
        wanted = _Wanted(
            goals, self.candidates, self.memory, device, self.design, self.matrix_elements
        )
        asked = _Asked([KERNEL_PROVIDERS.get(name) for name in self.providers], self.target)
        operators = _operators(module)
        for op in operators:
            check_tensor_sizes(op)
        # Reversed, so that errors name a function's first caller.
        callers = {_callee(op): op for op in reversed(operators)}
        calls = Counter(map(_callee, operators))
        scratches: dict[str, Scratch] = {}
        for function in list(functions(module)):
            if is_private(function) and function.operation.regions[0].blocks:
                name = symbol_name(function)
                limit = Limit(self.memory, callers.get(name, function))
                kernels[name] = [
                    *_build_candidates(function, name, wanted.for_calls(calls[name]), limit),
                    *_generated(function),
                    *_offered(function, asked, limit),
                ]
                scratch = scratch_of(function)
                if scratch is not None:
                    scratches[name] = scratch
                function.operation.erase()
        called: dict[str, list[ir.OpView]] = {}
        for op in operators:
            called.setdefault(_callee(op), []).append(op)
        for op in operators:
            chosen = [
                kernel
                for reference in ir.ArrayAttr(op.operation.attributes["kernels"])
                for kernel in kernels[ir.FlatSymbolRefAttr(reference).value]
            ]
            op.operation.attributes["kernels"] = ir.ArrayAttr.get(
                [ir.FlatSymbolRefAttr.get(kernel) for kernel in chosen]
            )
        for name, scratch in scratches.items():
            add_scratch(module, scratch, kernels[name], called[name])


def _callee(op: ir.OpView) -> str:
    reference, *_ = ir.ArrayAttr(op.operation.attributes["kernels"])
    return ir.FlatSymbolRefAttr(reference).value


def _operators(module: ir.Module) -> list[ir.OpView]:
    return [
        op
        for function in functions(module)
        if not is_private(function)
        for op in function.operation.regions[0].blocks[0].operations
        if op.operation.name == "rtask.operator"
    ]


def _separate_results(function: ir.OpView) -> None:
    """Clone the producer of each value that the function returns more than once.

    Each result is then a separate value and gets a separate buffer.
    """
    terminator = list(function.operation.regions[0].blocks[0].operations)[-1].operation
    seen: set[ir.Value] = set()
    for index, value in enumerate(terminator.operands):
        if value in seen and not isinstance(value.owner, ir.Block):
            copy = value.owner.operation.clone(ip=ir.InsertionPoint(terminator))
            terminator.operands[index] = copy.results[ir.OpResult(value).result_number]
        seen.add(value)


def _build_candidates(function: ir.OpView, name: str, wanted: _Wanted, limit: Limit) -> list[str]:
    _separate_results(function)
    computation = Computation(function)
    space = computation.space
    if space is None:
        kernel = build_whole(computation, f"{name}_t0")
        inputs = list(computation.block.arguments)
        reads = [Touch(i, whole(value)) for i, value in enumerate(inputs)]
        writes = [
            Touch(len(inputs) + i, whole(value)) for i, value in enumerate(computation.returned)
        ]
        cost = whole_cost(computation)
        limit.check(cost)
        _describe(kernel, 1, reads, writes, cost)
        return [f"{name}_t0"]
    names: list[str] = []

    # The search asks for the cost of a tiling repeatedly.
    @cache
    def cost_of(tiling: Tiling) -> TileCost:
        return tile_cost(computation, TiledDomain(space, tiling))

    element = _matrix_element(computation, wanted.matrix_elements)
    tilings = _tilings(computation, wanted, cost_of, element)
    domains = [TiledDomain(space, tiling) for tiling in tilings]
    check_number_of_rtasks(limit.op, min(domain.num_rtasks for domain in domains))
    for domain, tiling in zip(domains, tilings, strict=True):
        if domain.num_rtasks > MOST_RTASKS:
            continue  # a coarser one is left
        limit.check(cost_of(tiling))
        kernel = build_tiled(computation, domain, f"{name}_t{len(names)}")
        reads, writes = touches(computation, domain)
        _describe(kernel, domain.num_rtasks, reads, writes, cost_of(tiling), element)
        names.append(symbol_name(kernel))
    return names


def _generated(function: ir.OpView) -> Iterator[str]:
    """Emit the rKernel that a code generator returned for a region's function, and yield its name.

    Yield nothing if the function is no region or its code generator returned no code.
    """
    name = generated_kernel(function)
    if name is not None:
        yield name


@dataclass(frozen=True)
class _Asked:
    """The providers that are asked for rKernels, and the target for which they compile."""

    providers: Sequence[KernelProvider]
    target: str


def _offered(function: ir.OpView, asked: _Asked, limit: Limit) -> Iterator[str]:
    """Yield the name of each rKernel that a provider offers for a function.

    Raises:
        OperationError: if an rTask of an offered rKernel exceeds ``limit``.
    """
    for provider in asked.providers:
        for description in offered_kernels(Computation(function), provider, asked.target):
            attributes = description.operation.attributes
            work = (ir.IntegerAttr(attributes[key]).value for key in ("operations", "bytes"))
            limit.check(TileCost(*work))
            yield ir.FlatSymbolRefAttr(attributes["function"]).value


@dataclass(frozen=True)
class _Wanted:
    """Criteria for the choice of the tiles of a function's candidate rKernels.

    Attributes:
        aims: for CPUs, the targets for an rTask's operations and bytes, from coarse to fine; each
            of the first ``candidates`` targets gives an rKernel.
        candidates: the maximum count of rKernels per function.
        memory: the maximum bytes that an rTask may access, 0 for no limit.
        device: the device whose predicted times choose the tiles; None for ``aims``.
        design: how tiles are searched: ``greedy`` or ``search``.
        matrix_elements: element types that the target's matrix instructions multiply.
    """

    aims: Sequence[Aim]
    candidates: int
    memory: int
    device: Device | None
    design: str
    matrix_elements: Sequence[str] = ()

    def for_calls(self, calls: int) -> _Wanted:
        """Return the criteria for a function that ``calls`` rOperators call.

        On a CPU, a function that at least ``_MANY_CALLS`` rOperators call gets one more candidate,
        unless ``candidates`` is 1.
        """
        one_more = 1 < self.candidates and calls >= _MANY_CALLS and self.device is None
        return replace(self, candidates=self.candidates + 1) if one_more else self


def _tilings(
    computation: Computation, wanted: _Wanted, cost: Callable[[Tiling], TileCost], element: str
) -> list[Tiling]:
    """Return the tilings of a computation's candidate rKernels, from coarse to fine.

    ``cost`` returns the cost of one rTask of a tiling. ``element`` is the element type of the
    matrix instructions that perform most of the operations; it is empty if there are none.
    """
    space = computation.space
    assert space is not None
    extents = [tile_class.extent for tile_class in space.classes]
    limits = loop_limits(computation.outside, space)
    if wanted.memory or wanted.device:  # allow the small tiles that a limit or a GPU's threads need
        limits = [limit if limit.contiguous else LoopLimit() for limit in limits]
    if wanted.device is not None:
        device = wanted.device.with_rate(element)
        return tiles_for(device, extents, limits, cost, wanted.candidates)
    memory = wanted.memory or _l1_limit(computation, cost(tuple(extents)))
    limited = (replace(aim, memory=memory) for aim in wanted.aims[: wanted.candidates])
    chosen = (_chosen(extents, limits, cost, aim, wanted.design) for aim in limited)
    return list(dict.fromkeys(chosen))


def _matrix_element(computation: Computation, elements: Sequence[str]) -> str:
    """Return the element type of matrix instructions that can compute most of a computation.

    ``elements`` are the element types that the target's matrix instructions support; factors of f32
    need ``tf32``. Return an empty string if no matrix instruction fits, or if a factor has fewer
    rows or columns than ``_MATRIX_SIDE``.
    """
    main = max(computation.generics, key=lambda op: op.operations, default=None)
    if main is None or not main.matrix_element:
        return ""
    element = "tf32" if main.matrix_element == "f32" else main.matrix_element
    left, right, _ = main.used_loops
    sides = [
        max((main.extents[n] for n in own if n not in other and main.parallel[n]), default=1)
        for own, other in ((left, right), (right, left))
    ]
    return element if element in elements and min(sides) >= _MATRIX_SIDE else ""


def _l1_limit(computation: Computation, whole: TileCost) -> int:
    """Return the maximum bytes that an rTask may access, so that values stay in L1 between reads.

    A softmax, for example, reads a row once for its maximum and again for the exponentials. The
    limit is the larger of two sizes: a part of the L1 cache, and a fixed share of the bytes that
    the computation accesses as a single rTask (with the cost ``whole``). The second size prevents
    too many small rTasks. Return 0, for no limit, if an rTask reads no value twice.
    """
    if not computation.reads_again:
        return 0
    return max(_FIRST_LEVEL_BYTES, whole.num_bytes // _MOST_SMALL_TILES)


def _chosen(
    extents: Sequence[int],
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
    aim: Aim,
    design: str,
) -> Tiling:
    greedy = choose(extents, limits, cost, aim)
    if design == GREEDY:
        return greedy
    return search_tiling(extents, limits, cost, greedy, aim.num_bytes)


def _describe(
    kernel: ir.OpView,
    num_rtasks: int,
    reads: list[Touch],
    writes: list[Touch],
    cost: TileCost,
    element: str = "",
) -> None:
    further = {MATRIX_ELEMENT: ir.StringAttr.get(element)} if element else {}
    accesses = {
        "reads": ir.ArrayAttr.get([_access(touch) for touch in reads]),
        "writes": ir.ArrayAttr.get([_access(touch) for touch in writes]),
    }
    with ir.InsertionPoint(kernel):
        name = symbol_name(kernel)
        describe_kernel(name, num_rtasks, accesses, cost.operations, cost.num_bytes, **further)


def _access(touch: Touch) -> ir.DictAttr:
    offsets = ir.AffineMap.get(1, 0, list(touch.box.offsets))
    i64 = ir.IntegerType.get_signless(64)
    return ir.DictAttr.get(
        {
            "argument": ir.IntegerAttr.get(i64, touch.argument),
            "offsets": ir.AffineMapAttr.get(offsets),
            "sizes": ir.DenseI64ArrayAttr.get(list(touch.box.sizes)),
        }
    )
