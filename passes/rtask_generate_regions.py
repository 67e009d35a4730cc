"""`rtask-generate-regions`: asks code generators for rKernels that compute their marked regions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import ALIGNMENTS, GRAINS, External
from rammer_mlir.dialects.rtask.module_op import LINKED
from rammer_mlir.passes.base import Form, OperationError, Pass
from rammer_mlir.passes.ir.boxes_text import accesses_of, box_problems
from rammer_mlir.passes.ir.code_modules import adopt_module, emit_module
from rammer_mlir.passes.ir.entry import CODEGEN, entry_block, functions, symbol_name
from rammer_mlir.passes.regions.codegen import CODEGENS, Codegen, ask
from rammer_mlir.passes.regions.declared_options import check_module_options, declared_by
from rammer_mlir.passes.regions.region import Region, RegionCode, region_of
from rammer_mlir.passes.regions.region_text import region_text, standalone
from rammer_mlir.passes.tiling.choice import TileCost
from rammer_mlir.passes.tiling.generated import GENERATED
from rammer_mlir.passes.tiling.kernel import Computation, whole_cost
from rammer_mlir.programs.json_graph import Graph
from rammer_mlir.programs.module_options import Value, complete, of_owner, read_written
from rammer_mlir.programs.modules import CPU_FORMS, NATIVE, Requirement, forms_for
from rammer_mlir.scheduling.memory import aligned
from rammer_mlir.support.log import LOGGER

_SYMBOL = re.compile(r"[A-Za-z_$.][\w$.]*", re.ASCII)

_MOST_RTASKS, _MOST_SCRATCH = 1 << 20, 1 << 40
"""Most rTasks of foreign code, and most bytes of its scratch memory."""


@dataclass(frozen=True)
class GenerateRegions(Pass):
    """Ask each region's code generator for an external rKernel that computes the region.

    If a code generator has no method ``generate``, or the method returns None, this compiler
    compiles the region. Otherwise the returned code is stored in an ``rtask.module``. The attribute
    ``rtask.generated`` of the region's function describes the rKernel, which becomes a candidate in
    `rtask-tile` besides the compiler's own rKernels. ``target`` is the target of the code, as
    ``--target`` names it. ``options`` are for code generators and engines, for example
    ``openvino.threads=2&iree.seconds=60``.
    """

    name: ClassVar[str] = "rtask-generate-regions"
    takes: ClassVar[Form | None] = Form.TENSORS

    target: str = "cpu"
    options: str = ""

    def run(self, module: ir.Module) -> None:
        """Attach an rKernel to a region's function if the region's code generator returns code."""
        given = check_module_options(read_written(self.options))
        regions: dict[str, list[ir.OpView]] = {}
        for function in functions(module):
            if CODEGEN in function.operation.attributes:
                name = ir.StringAttr(function.operation.attributes[CODEGEN]).value
                regions.setdefault(name, []).append(function)
        for name, found in regions.items():
            codegen = CODEGENS.get(name)
            if _optional(codegen, "generate") is not None:
                own = complete(declared_by(codegen), of_owner(given, name))
                outlined = [self._read(module, function, own) for function in found]
                _generate(module, codegen, outlined, given)

    def _read(
        self, module: ir.Module, function: ir.OpView, options: Mapping[str, Value]
    ) -> _Outlined:
        alone = standalone(module, function)
        region = region_of(module, function, region_text(alone), self.target)
        (copy,) = functions(alone)
        return _Outlined(function, replace(region, options=options), whole_cost(Computation(copy)))


@dataclass(frozen=True)
class _Outlined:
    """A region: its function, its description for the code generator, and its cost as one rTask."""

    function: ir.OpView
    region: Region
    cost: TileCost


def _generate(
    module: ir.Module, codegen: Codegen, outlined: list[_Outlined], given: Mapping[str, str]
) -> None:
    """Ask a code generator for the code of its regions; attach the code to the regions' functions.

    If the code generator has a method ``prepare``, it is called once, before the first region.
    ``given`` maps full names of options, ``owner.option``, to values. If the code generator returns
    None for a region, the region stays unchanged.
    """
    prepare, generate = (_optional(codegen, name) for name in ("prepare", "generate"))
    assert generate is not None
    if prepare is not None:
        ask(codegen, "prepare", partial(prepare, [each.region for each in outlined]))
    for each in outlined:
        code = ask(codegen, "generate", partial(generate, each.region))
        if code is None:
            LOGGER.info("%s: no code for region '%s'", codegen.name, each.region.name)
        else:
            checked = _checked(each, codegen.name, code)
            is_shared = not checked.holds_weights and not checked.engine
            for function in [each.function] if is_shared else _for_each_call(module, each.function):
                _attach(replace(each, function=function), checked, of_owner(given, checked.engine))


def _optional(codegen: Codegen, name: str) -> Callable[..., object] | None:
    return getattr(codegen, name, None)


def _for_each_call(module: ir.Module, function: ir.OpView) -> list[ir.OpView]:
    """Return a separate function for each call of ``function``, in the order of the calls.

    The first call keeps the function, every other call is redirected to a clone. This is needed if
    the foreign code's state depends on the region's weights, which differ between calls.
    """
    name, table = symbol_name(function), ir.SymbolTable(module.operation)
    found: list[ir.OpView] = []
    for op in entry_block(module).operations:
        callee = op.operation.attributes["callee"] if op.operation.name == "func.call" else None
        if callee is None or ir.FlatSymbolRefAttr(callee).value != name:
            continue
        own = function.operation
        if found:
            own = own.clone(ir.InsertionPoint(function))
            own_name = table.insert(own)
            op.operation.attributes["callee"] = ir.FlatSymbolRefAttr.get(own_name.value)
        found.append(own.opview)
    return found


def _checked(outlined: _Outlined, codegen: str, code: object) -> RegionCode:
    target = outlined.region.target
    forms = forms_for(target)
    if isinstance(code, RegionCode) and code.form in {*CPU_FORMS, *NATIVE} - {*forms}:
        raise OperationError(
            outlined.function,
            f"code generator '{codegen}': expected code of a form that the target {target} runs, "
            f"{', '.join(forms)}, found {code.form}; choose another target, or leave the code "
            "generator out",
        )
    if not isinstance(code, RegionCode) or code.form not in forms:
        found = f"the form {code.form}" if isinstance(code, RegionCode) else type(code).__name__
        raise OperationError(
            outlined.function,
            f"code generator '{codegen}': expected a RegionCode of form {', '.join(forms)} or "
            f"None, found {found}; mend it, or leave the code generator out",
        )
    _check_numbers(outlined, codegen, code)
    return code


def _check_numbers(outlined: _Outlined, codegen: str, code: RegionCode) -> None:
    for expected, found in _problems(outlined.region, code):
        raise OperationError(
            outlined.function,
            f"code generator '{codegen}', region '{outlined.region.name}': expected {expected}, "
            f"found {found}; mend it, or leave the code generator out",
        )


def _problems(region: Region, code: RegionCode) -> Iterator[tuple[str, object]]:
    """Yield the expected and the found value for each error in the code generated for ``region``.

    ``code`` is what the region's code generator returned.
    """
    yield from _range_problems(code)
    if code.form == "graph":
        yield from _graph_problems(region, code)
    sides = (("reads", region.inputs, code.reads), ("writes", region.outputs, code.writes))
    for side, kinds, boxes in sides:
        for expected, found in box_problems(kinds, boxes):
            yield f"{side}: {expected}", found
    yield from _grain_problems(region.target, code)
    if bool(code.engine) == (code.form in LINKED):
        expected = "no engine" if code.form in LINKED else "the name of an engine"
        yield f"{expected} for the form {code.form}", f"'{code.engine}'"
    if code.alignment not in ALIGNMENTS:
        yield f"an alignment of {', '.join(map(str, ALIGNMENTS))} bytes", repr(code.alignment)


def _range_problems(code: RegionCode) -> Iterator[tuple[str, object]]:
    """Yield the expected and the found value for each field of ``code`` that is not valid.

    A field is valid if it has the declared type and, for a number, is in the allowed range.
    """
    given: Mapping[str, object] = vars(code)
    for unit, size, least, most in (
        ("rTasks", given["num_rtasks"], 1, _MOST_RTASKS),
        ("bytes of scratch", given["scratch_bytes"], 0, _MOST_SCRATCH),
    ):
        if type(size) is not int or not least <= size <= most:
            yield f"{least} to {most} {unit}", repr(size)
    content, symbol, needs = given["code"], given["symbol"], given["needs"]
    if not isinstance(content, str | bytes):
        yield "code as text or bytes", type(content).__name__
    elif not content or (isinstance(content, str) and not _is_utf8(content)):
        yield "code as text or bytes", "text that is not UTF-8" if content else "none"
    objects = given["objects"]
    if not isinstance(objects, tuple | list) or not all(isinstance(o, bytes) for o in objects):
        yield "objects as a tuple of bytes", type(objects).__name__
    efficiency = given["efficiency"]
    if not isinstance(efficiency, int | float) or not 0 < efficiency < inf:
        yield "a finite efficiency above 0", repr(efficiency)
    if not isinstance(symbol, str) or not _SYMBOL.fullmatch(symbol):
        yield "a symbol of letters, digits and underscores", repr(symbol)
    required: Sequence[object] = needs if isinstance(needs, tuple | list) else ["no tuple"]
    if not all(isinstance(each, Requirement) for each in required):
        yield "needs as a tuple of Requirement", repr(needs)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _graph_problems(region: Region, code: RegionCode) -> Iterator[tuple[str, object]]:
    """Yield the expected and the found type of each graph input or output with a wrong type.

    The expected types are those of ``region``. Engines trust the graph's shapes: with wrong shapes
    they would access memory beyond the buffers.
    """
    try:
        graph = Graph.from_json(code.code if isinstance(code.code, bytes) else code.code.encode())
    except ValueError:
        return  # another format, which only its engine knows
    sides = (("inputs", region.inputs, graph.inputs), ("outputs", region.outputs, graph.outputs))
    for side, kinds, tensors in sides:
        if len(kinds) != len(tensors):
            yield f"{len(kinds)} {side} of the graph", len(tensors)
        for kind, tensor in zip(kinds, tensors, strict=False):
            expected = _tensor_text(
                ir.RankedTensorType(kind).shape, str(ir.RankedTensorType(kind).element_type)
            )
            found = _tensor_text(tensor.shape, tensor.element_type)
            if expected != found:
                yield f"'{tensor.name}' of the graph's {side} as {expected}", found


def _tensor_text(shape: Sequence[int], element: str) -> str:
    return "x".join((*map(str, shape), element))


def _grain_problems(target: str, code: RegionCode) -> Iterator[tuple[str, object]]:
    if code.grain not in GRAINS:
        yield f"a grain of {', '.join(GRAINS)}", f"'{code.grain}'"
    elif code.grain == "device" and forms_for(target) != CPU_FORMS:
        yield f"the grain region for {target}", "device"
    elif code.grain == "device" and code.num_rtasks != 1:
        yield "one rTask of the grain device", code.num_rtasks


def _attach(outlined: _Outlined, code: RegionCode, options: Mapping[str, str]) -> None:
    function, region = outlined.function, outlined.region
    holder = ir.Module.create()
    i64 = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(holder.body):
        made = emit_module(
            f"{region.name}_code", code.form, code.code, engine=code.engine, needs=code.needs,
            objects=code.objects, options=options,
        )  # fmt: skip
    name = adopt_module(made, ir.InsertionPoint(function))
    has_state = code.has_state or code.form not in LINKED
    external = External(name, code.symbol, has_state, code.alignment, code.grain)
    numbers = {
        "num_rtasks": code.num_rtasks,
        "operations": int(outlined.cost.operations / code.efficiency) // code.num_rtasks,
        "bytes": outlined.cost.num_bytes // code.num_rtasks,
        **({"scratch": aligned(code.scratch_bytes)} if code.scratch_bytes else {}),
    }
    function.operation.attributes[GENERATED] = ir.DictAttr.get(
        {
            "external": external.as_attribute(),
            "reads": accesses_of(region.inputs, code.reads, 0),
            "writes": accesses_of(region.outputs, code.writes, len(region.inputs)),
            **{key: ir.IntegerAttr.get(i64, value) for key, value in numbers.items()},
        }
    )
